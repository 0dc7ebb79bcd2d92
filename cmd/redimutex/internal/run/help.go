package run

import "github.com/redimutex/redimutex/cmd/redimutex/internal/cli"

// sections returns the help that follows the flags.
func sections() []cli.Section {
	return []cli.Section{
		{Blocks: []cli.Block{cli.Para(`Flags may stand behind KEY as well. -- ends them. KEYs of which the first
			begins with a dash have a -- in front as well: redimutex run -- -KEY -- COMMAND.`)}},
		{Title: "EXAMPLES", Blocks: []cli.Block{
			cli.Example("A cron job that is due on several machines, and runs on one of them:",
				"REDIMUTEX_URL=@/etc/redis.url\n* * * * *  redimutex run -n -q -E 0 -min-hold 50s report -- /opt/report"),
			cli.Example("One deploy at a time; give up after ten minutes:",
				"redimutex run -redis @/etc/redis.url -w 10m deploy -- ./deploy.sh web"),
			cli.Example("Redlock over three servers:",
				"redimutex run -redis redis://a -redis redis://b -redis redis://c \\\n  import -- ./import"),
			cli.Example("Reports that may run together, but not while the import writes:",
				"redimutex run -s ledger -- ./report\nredimutex run ledger -- ./import"),
			cli.Example("Ten downloads at a time, over all machines:", "redimutex run -permits 10 -queue downloads -- ./download"),
			cli.Example("Two accounts, or none:", "redimutex run account:{eu}:1 account:{eu}:2 -- ./transfer"),
			cli.Example("A line of the shell:", "redimutex run import -- sh -c './load && ./index'"),
			cli.Example("Who holds it?", "redimutex show deploy"),
		}},
		{Title: "WHILE WAITING", Blocks: []cli.Block{cli.Para(`One line on stderr names the holder. If -n or -w ends the wait,
			another line names the holder at that time. Readers are an unknown owner there; redimutex show
			names them. INT, TERM, HUP, QUIT and ALRM end the wait and leave nothing behind. If
			a server hangs, the clean-up may take some seconds. A second signal ends us at once; what is left expires with its TTL.
			A server that can't be reached at the start is an error at once. If it fails later, while we wait, we go on
			trying until -w is over; but not if it refuses us for good, as with a new password. A redimutex run around this one
			may hold the lock itself, as its holder, as a reader, or with all permits. That wait may never end, so we say so
			and exit as with -n.`)}},
		{Title: "WHILE COMMAND RUNS", Blocks: []cli.Block{
			cli.Para(`It has our stdin, a process group of its own and, at a terminal, the foreground. HUP, INT, QUIT, TERM,
				ALRM, USR1, USR2, WINCH, CONT and TSTP are passed on to the group. HUP and INT that we were started to ignore,
				as by nohup, stay ignored in COMMAND; other signals do not.
				If INT, TERM, HUP or KILL ends COMMAND, we die of the same signal, so that a script around us ends as well. Ctrl-C
				at the terminal also ends the rest of our group. The lock is released when COMMAND itself ends. Processes that it
				left in the background run on without the lock. As PID 1 of a container we reap orphans.`),
			cli.Para(`If the lock is lost, one line on stderr says why. The signals go to the whole group, so to all that COMMAND
				has started in it:`),
			cli.Sub("renewals fail", "TERM one -grace before the lock ends, KILL when it ends"),
			cli.Sub("the key is deleted or taken", "TERM at once, KILL after -grace"),
			cli.Para(`The exit status is that of COMMAND then too: 143 or 137, if it did not catch TERM. A redimutex run inside COMMAND
				that has passed TERM on stays for up to one -grace, while anything of its own group lives: the group ends with it.`),
			cli.Para(`Ctrl-Z stops COMMAND and redimutex, so nothing renews the lock. If the lock is over before you continue
				them, COMMAND is killed before it runs on.`),
			cli.Para(`A program that hangs in the kernel may finish one last write after the lock is over. Let the storage refuse
				writes with a $REDIMUTEX_FENCE that is lower than the highest it has seen.`),
		}},
		{Title: "IF REDIMUTEX ITSELF IS KILLED OR STOPPED", Blocks: []cli.Block{
			cli.Para(`KILL: a second process, redimutex guard, then kills COMMAND and its group. It does the same for each
				redimutex run inside COMMAND. The lock ends within one -ttl. A setuid command such as sudo or su outlives a killed
				redimutex, because it has another user: write sudo redimutex run KEY -- COMMAND, not
				redimutex run KEY -- sudo COMMAND. Where the guard is killed as well, as pkill -9 -f redimutex does, COMMAND runs
				on, and when the lock has expired another one runs beside it.`),
			cli.Para(`STOP: a stopped redimutex neither renews the lock nor ends COMMAND. The lock expires, and the next holder gets it.
				COMMAND runs on beside that holder until redimutex continues and kills it. Stop COMMAND alone instead: redimutex
				then keeps the lock. Only a fence protects the data here.`),
		}},
		{Title: "ENVIRONMENT OF COMMAND", Blocks: []cli.Block{
			cli.Item("REDIMUTEX_KEY", "KEY; of several the first in order"),
			cli.Item("REDIMUTEX_KEYS", "all of several, in order, each on a line of its own; a KEY with a line break in it takes two"),
			cli.Item("REDIMUTEX_FENCE", `a number that is higher for every hold of KEY; with -s that of the last run without it, and
				with -permits there is none`),
			cli.Item("REDIMUTEX_URL", `the servers that we use, so that a redimutex in COMMAND uses the same. It has no users and passwords;
				@FILE of -redis or $REDIMUTEX_URL stays the name of the file, unless that has a space or a comma, or is a pipe or the like`),
			cli.Item("REDIMUTEX_HOLDS", "the locks of all redimutex run around COMMAND, as hashes, for those inside it"),
			cli.Item("REDIS_URL", "unchanged, because it belongs to your program and not to us"),
			cli.Para(`ps(1) shows a password in -redis to every user of the machine. Put it into $REDIMUTEX_URL or a file
				instead. A redimutex in COMMAND gets it only from the file; without one, the server refuses it.`),
		}},
		cli.Ends(cli.Para("That of COMMAND, or 128+N if signal N ended it; of INT, TERM, HUP and KILL we die ourselves. Else:"),
			cli.Sub("1", "the lock is held (-n, -w), also by a redimutex run around this one; -E changes it"),
			cli.Sub("2", "wrong usage"),
			cli.Sub("69", "the server can't be reached, or refuses us, or -min-hold could not be kept; stderr says why"),
			cli.Sub("126", "COMMAND can't be run"),
			cli.Sub("127", "there is no COMMAND"),
			cli.Sub("128+N", "signal N ended the wait for the lock")),
	}
}
