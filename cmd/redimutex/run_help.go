package main

const runHelp = `Usage: redimutex run [FLAGS] KEY -- COMMAND [ARGUMENTS]

Runs COMMAND while holding the lock KEY, as flock(1) does, but for all machines
that use the same Redis. At most one of them runs its command at a time. The
exit status is that of COMMAND.

  -redis URL      The server: redis://[[user]:password@]host[:port][/db], the
                  same with rediss:// for TLS, or unix:///path/to/socket.
                  Repeat it for Redlock: a majority of independent servers
                  decides. -redis @FILE reads the URLs from a file.
                  Default: $REDIMUTEX_URL (several with commas or spaces, or
                  @FILE), else $REDIS_URL, else redis://127.0.0.1:6379
  -n, -nonblock   Do not wait: if somebody else holds the lock, exit at once.
  -w, -wait TIME  Wait so long at most. 0 is the same as -n.
                  Default: as long as it takes
  -E, -conflict-exit-code N
                  Exit status when somebody else holds the lock and -n or -w
                  ended the wait. Default: 1; from 0 to 255
  -queue          Wait in line, in order of arrival, with all others that use
                  this flag, instead of asking again and again.
  -ttl TIME       How long the lock outlives us if we crash. It is renewed every
                  third of that, so COMMAND may run for as long as it likes.
                  Default: 10s; 100ms at least
  -grace TIME     When the lock is lost: time from TERM to KILL.
                  Default: a quarter of -ttl, but 5s at most; up to half of -ttl
  -min-hold TIME  Keep the lock for so long, even if COMMAND ends before, for a
                  job that must not run twice although the clocks of the
                  machines differ by almost that. Default: 0
  -owner LABEL    What others see who wait for the lock. Passwords in URLs and
                  after words such as password= are masked in the default; use
                  this if others remain. Default: host, pid and command
  -q, -quiet      Do not say on stderr that we wait, and for whom.

TIME is a number of seconds (5, 0.5) or has units (500ms, 1m30s). Flags may
stand after KEY as well.

EXAMPLES
  A cron job that is due on several machines, and runs on one of them:
    * * * * *  redimutex run -n -E 0 -min-hold 50s report -- /opt/report
  One deploy at a time; give up after ten minutes:
    redimutex run -redis @/etc/redis.url -w 10m deploy -- ./deploy.sh web
  Redlock over three servers:
    redimutex run -redis redis://a -redis redis://b -redis redis://c \
      import -- ./import
  Who holds it?
    redimutex show deploy

WHILE WAITING
  One line on stderr says for whom. INT, TERM, HUP and QUIT end the wait and
  leave nothing behind. A server that can't be reached at the start is an error
  at once. If it fails later, while we wait, we go on trying until -w is over.

WHILE COMMAND RUNS
  It has our stdin, a process group of its own and, at a terminal, the
  foreground. HUP, INT, QUIT, TERM, USR1, USR2, WINCH, CONT and TSTP are passed
  on to the group. The lock is released when COMMAND itself ends; what it has
  left in the background runs on without it.

  If the lock is lost, one line on stderr says why, and the whole group is
  ended, with all that COMMAND has started in it:
    renewals fail                TERM one -grace before the lock ends,
                                 KILL when it ends
    the key is deleted or taken  TERM at once, KILL after -grace
  The exit status is COMMAND's then too: 143 or 137, if it did not catch TERM.

  Ctrl-Z stops COMMAND and redimutex, so nothing renews the lock. If the lock
  is over before you continue them, COMMAND is killed before it runs on.

  If redimutex itself is killed by KILL, Linux kills COMMAND as well, but not
  what COMMAND has started; other systems kill nothing. The lock ends one -ttl
  later at the latest.

  A program that hangs in the kernel may finish one last write after the lock is
  over. Let the storage refuse writes with a $REDIMUTEX_FENCE that is lower than
  the highest it has seen.

ENVIRONMENT OF COMMAND
  REDIMUTEX_KEY    KEY
  REDIMUTEX_FENCE  a number that is higher for every hold of KEY
  REDIMUTEX_URL    as ours, but without users and passwords
  REDIS_URL        unchanged, because it belongs to your program and not to us

  ps(1) shows a password in -redis to everybody on the machine. Put it into
  $REDIMUTEX_URL or a file instead.

EXIT STATUS
  That of COMMAND, or 128+N if signal N ended it. Else:
    1      somebody else holds the lock (-n, -w); -E changes it
    2      wrong usage
    69     the server can't be reached, or refuses us; stderr says why
    126    COMMAND can't be run
    127    there is no COMMAND
    128+N  signal N ended the wait for the lock
`
