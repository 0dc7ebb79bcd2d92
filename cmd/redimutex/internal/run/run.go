// Package run is the verb that runs a command while it holds a lock.
package run

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// A job is what one redimutex run is asked to do.
type job struct {
	keys      []string // sorted; more than one are locked together
	name      string   // of the lock, for messages
	shared    bool     // as a reader
	permits   int      // of a semaphore; 0: it is no semaphore
	command   []string
	path      string // where the command is
	urls      servers.URLs
	servers   servers.Set
	ttl       time.Duration
	minHold   time.Duration
	grace     time.Duration
	wait      time.Duration // negative: without limit
	once      bool          // try once, do not wait
	queue     bool
	conflict  int // exit status when another process holds the lock
	owner     string
	arguments bool // the default label shows the arguments of the command
	quiet     bool
}

const (
	defaultTTL   = 10 * time.Second
	minTTL       = 100 * time.Millisecond
	defaultGrace = 5 * time.Second // a quarter of the TTL, if that is less
)

func command() *cli.Command {
	j := &job{ttl: defaultTTL, grace: -1, wait: -1, conflict: cli.Failure}
	return &cli.Command{
		Name: "run", Summary: "run a command while holding a lock",
		Args: "KEY... -- COMMAND [ARGUMENTS]", Keys: -1, Runs: true,
		About: []cli.Block{
			cli.Para(`Runs COMMAND while holding the lock KEY, as flock(1) does, but for all machines
				that use the same Redis. At most one of them runs its command at a time. The exit status is that of COMMAND.`),
			cli.Para(`With several KEYs it runs while it holds all of them. It takes all or none, so two that name
				them in another order never wait for each other.`),
		},
		Flags: []*cli.Flag{
			servers.Flag(&j.urls, `A majority of independent servers decides then. URL is
				redis://[[user]:password@]host[:port][/db], the same with rediss:// for TLS, or unix:///path/to/socket.`),
			{Names: []string{"s", "shared"}, Value: cli.Switch(&j.shared), Text: `Hold KEY as a reader: many readers run at a time,
				and none beside a run without this flag. While a writer of an RWMutex waits, new readers wait for it; a run
				without this flag waits until there is no reader. For one KEY and one server.`},
			{
				Names: []string{"permits"}, Arg: "N", Value: cli.Number(&j.permits, 1, math.MaxInt32, "a number of permits, 1 at least and 2147483647 at most"),
				Text: `Hold one of N permits of the semaphore KEY: N run at a time. All that use KEY name the same N; a lower one waits
					until enough have left. For one KEY and one server. Locks of other kinds need other KEYs`,
			},
			{Names: []string{"n", "nonblock"}, Value: cli.Switch(&j.once), Text: `Do not wait: if the lock is held, exit at once. With several servers, it tries
				a few times, because machines that try at the same moment may split the votes`},
			{
				Names: []string{"w", "wait"}, Arg: "TIME", Value: cli.Time(&j.wait),
				Text: `Wait so long at most. 0 tries once, as -n does (LockContext(ctx, 0) of the library
					waits for ever). Default: as long as it takes`,
			},
			{
				Names: []string{"E", "conflict-exit-code"}, Arg: "N", Value: cli.Number(&j.conflict, 0, 255, "a number from 0 to 255"),
				Text: `Exit status when the lock is held and -n or -w ended the wait. Default: 1; from 0 to 255`,
			},
			{Names: []string{"queue"}, Value: cli.Switch(&j.queue), Text: `Wait in line, in order of arrival, with all others that
				use this flag, instead of asking again and again. For one KEY and one server. Runs with -s do not stand behind
				one without it.`},
			{Names: []string{"ttl"}, Arg: "TIME", Value: cli.Time(&j.ttl), Text: `How long the lock outlives us if we crash. It is
				renewed every third of that, so COMMAND may run for as long as it likes. Default: 10s; 100ms at least`},
			{Names: []string{"grace"}, Arg: "TIME", Value: cli.Time(&j.grace), Text: `When the lock is lost: time
				from TERM to KILL. Default: a quarter of -ttl, but 5s at most; up to half of -ttl`},
			{Names: []string{"min-hold"}, Arg: "TIME", Value: cli.Time(&j.minHold), Text: `Keep the lock for at least this time, even if
				COMMAND ends earlier. If COMMAND could not be started, the lock is released at once. Use it for a job that must not run
				twice: clocks of machines may differ by almost TIME. If we are killed, the lock ends with -ttl, even before TIME. If a
				server hangs as COMMAND ends, we wait for it. Default: 0`},
			{Names: []string{"owner"}, Arg: "LABEL", Value: cli.Text(&j.owner), Text: `The name that waiters see.
				Default: host, pid and the name of the command`},
			{Names: []string{"owner-args"}, Value: cli.Switch(&j.arguments), Text: `Show the arguments of COMMAND in the default
				label as well. All who may read the server see them. Passwords in URLs and after words such
				as password= are masked; others are not.`},
			{Names: []string{"q", "quiet"}, Value: cli.Switch(&j.quiet), Text: "Do not say on stderr that we wait or give up, and who holds the lock."},
		},
		Notes: sections(),
		Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
			if err := j.check(in); err != nil {
				return 0, err
			}
			var err error
			if j.path, err = find(j.command[0]); err != nil {
				status, words := j.cannotRun(err)
				t.Warn("%s", words)
				return status, nil
			}
			return j.run(t)
		},
	}
}

// check takes over the operands, and returns what is wrong with them or with the flags.
func (j *job) check(in *cli.Input) (err error) {
	if len(in.Words) == 0 {
		return errors.New("there is no KEY in front of --; write a name for the lock there, such as nightly-backup " +
			"(a further -- in front of KEY is only for a KEY that begins with a dash)")
	}
	if j.keys, err = cli.Keys(in.Words); err != nil {
		return err
	}
	slices.Sort(j.keys)
	j.name = shorten(strings.Join(j.keys, " "))
	j.command = in.Behind
	switch {
	case len(j.command) == 0 || j.command[0] == "":
		return errors.New("there is no command after --; write redimutex run KEY -- COMMAND")
	case j.once && j.wait >= 0:
		return errors.New("-n and -w exclude each other: -n does not wait at all")
	}
	if j.wait == 0 {
		j.once = true // as flock does
	}
	if err := j.setGrace(); err != nil {
		return err
	}
	if err := j.fits(); err != nil {
		return err
	}
	j.owner = j.label()
	j.servers, err = servers.Find(j.urls, servers.NodeTimeout(j.ttl))
	if n := len(j.servers); err == nil && n > 1 {
		switch {
		case j.shared:
			return fmt.Errorf("-s is for one server, and %d are given: readers that have a majority each would let a writer in", n)
		case j.permits > 0:
			return fmt.Errorf("-permits is for one server, and %d are given: a count by majority lets more than %d in", n, j.permits)
		case j.queue:
			return fmt.Errorf("-queue is for one server, and %d are given: leave it out, and waiters ask again and again", n)
		}
	}
	return err
}

// fits returns an error if flags or operands exclude each other.
func (j *job) fits() error {
	kind := "-s"
	if j.permits > 0 {
		kind = "-permits"
	}
	switch {
	case j.shared && j.permits > 0:
		return errors.New("-s and -permits exclude each other: a reader and a permit are of different kinds of locks")
	case j.owner != "" && j.arguments:
		return errors.New("-owner and -owner-args exclude each other: a label of your own has in it what you put there")
	case j.owner != "" && strings.TrimSpace(cli.Printable(j.owner)) == "":
		return errors.New("-owner is blank: write a name that waiters will know, or leave the flag out for its default")
	case (j.shared || j.permits > 0) && j.minHold > 0:
		return fmt.Errorf("-min-hold and %s exclude each other: others run at the same time anyway", kind)
	case len(j.keys) == 1:
		return nil
	case j.shared || j.permits > 0:
		return fmt.Errorf("%s is for one KEY, and there are %d", kind, len(j.keys))
	case j.queue:
		return fmt.Errorf("-queue is for one KEY, and there are %d: leave it out, and waiters ask again and again", len(j.keys))
	}
	return nil
}

// setGrace checks the times, and sets the default of -grace.
func (j *job) setGrace() error {
	if j.ttl < minTTL {
		return fmt.Errorf("-ttl %v: a lock has to live for %v at least", j.ttl, minTTL)
	}
	if j.minHold > 0 && j.minHold < time.Millisecond {
		return fmt.Errorf("-min-hold %v: has to be 1ms at least; leave it out for 0", j.minHold)
	}
	if j.grace < 0 {
		j.grace = min(defaultGrace, j.ttl/4)
	}
	if j.grace > j.ttl/2 {
		return fmt.Errorf("-grace %v: may be half of -ttl at most, which is %v, so that a renewal that fails once can be repeated before the command is stopped",
			j.grace, j.ttl/2)
	}
	return nil
}

// find returns the path of the command, as execvp(3) finds it: even without a PATH.
func find(name string) (string, error) {
	if _, given := os.LookupEnv("PATH"); !given {
		os.Setenv("PATH", "/bin:/usr/bin") //nolint:errcheck // the name is valid
		defer os.Unsetenv("PATH")
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil // the PATH allows it
	}
	return path, err
}

// cannotRun explains why the command can't be started, and returns the status that a shell would return.
func (j *job) cannotRun(err error) (status int, words string) {
	status = cli.CannotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		status = cli.NotFound
	}
	var number syscall.Errno
	reason, hint := err, ""
	switch {
	case errors.As(err, &number):
		reason = number
	case errors.Is(err, exec.ErrNotFound):
		reason = errors.New("there is no such command in the folders of $PATH")
	}
	line, keys := strings.Join(j.command, " "), strings.Join(j.keys, " ")
	switch {
	case number == syscall.E2BIG && len(keys) > len(line):
		hint = fmt.Sprintf("; it gets all KEYs in its environment, and they are %d bytes: lock fewer of them, or shorter ones", len(keys))
	case number == syscall.E2BIG:
		hint = fmt.Sprintf("; it and its arguments are %d bytes: pass them in a file, or by stdin", len(line))
	case len(j.command) == 1 && status == cli.NotFound && strings.ContainsAny(line, " \t;|&<>$()*") && cli.Mask(line) == line:
		hint = "; for a line of the shell write: sh -c " + cli.Quote(j.command)
	}
	return status, fmt.Sprintf("can't run %q: %s%s", cli.Mask(j.command[0]), reason, hint)
}

// maxLabel is the longest owner's label that the library allows.
const maxLabel = 256

// label returns the holder's name for processes that find the lock held: host, pid and the command, or the text of -owner. It
// leaves out arguments, unless -owner-args is set: they may be secret, and every user who may read the server sees the label.
func (j *job) label() string {
	if j.owner != "" {
		return shorten(cli.Printable(j.owner))
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	command := filepath.Base(j.command[0])
	if j.arguments {
		words := make([]string, len(j.command))
		for i, w := range j.command {
			words[i] = cli.Mask(w)
		}
		command = strings.Join(words, " ")
	}
	return shorten(cli.Printable(fmt.Sprintf("%s pid %d: %s", host, os.Getpid(), command)))
}

// shorten cuts s to the length of a label, between two characters.
func shorten(s string) string {
	const mark = "..."
	if len(s) <= maxLabel {
		return s
	}
	n := maxLabel - len(mark)
	for least := n - utf8.UTFMax; n > least && !utf8.RuneStart(s[n]); { // a key need not be UTF-8
		n--
	}
	return s[:n] + mark
}
