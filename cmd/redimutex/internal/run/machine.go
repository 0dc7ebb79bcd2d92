//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// Commands are the verb run, and the verbs of the processes that run starts for itself.
func Commands() []*cli.Command { return []*cli.Command{command(), guardian(), starter()} }

// A state is the state of a run. One loop goes from state to state:
//
//	trying    -> running      the lock was free
//	trying    -> waiting      another holder has it, and we may wait
//	waiting   -> running
//	trying, waiting -> cancelled    by a signal
//	running   -> outlived     COMMAND was ended because of a lock, and others of its group have not ended yet
//	releasing                 from each of these: gives the lock back, and undoes what a try has left
//	over                      from releasing, or from cancelled and releasing by a second signal
//
// In trying, waiting, cancelled and releasing one step runs on its own goroutine. Its outcome ends the state. The loop does
// everything else.
type state int8

const (
	trying state = iota
	waiting
	cancelled
	running
	outlived
	releasing
	over
)

// A runner does one job.
type runner struct {
	*job
	t        *cli.Terminal
	notes    *notes
	signals  chan os.Signal
	client   *redimutex.Client
	tryLock  acquisition
	waitLock acquisition
	lease    *redimutex.Lease // nil: none yet
	began    time.Time
	locked   error // the error of the first try; nil before it

	supervisor *supervisor // of COMMAND; nil before it runs
	started    time.Time   // when COMMAND began

	state  state
	step   chan error         // gets the outcome of the step under way
	cancel context.CancelFunc // ends that step
	since  time.Time          // when this state began
	hurry  bool               // a second signal has come

	status int            // the exit status
	by     syscall.Signal // or the signal to die of
	typed  bool           // at the terminal: processes that would have got it, were COMMAND in this group, have not

	failing     sync.Once             // for reporting once that the servers fail
	lastRenewal atomic.Pointer[error] // its error; nil after a good one
}

// run waits for the lock, runs the command and releases the lock. It returns the exit status, or the signal that ended it.
func (j *job) run(t *cli.Terminal) (int, error) {
	r := &runner{job: j, t: t, notes: newNotes(t), signals: catch(), step: make(chan error, 1), began: time.Now()}
	defer r.notes.flush()
	defer j.servers.Close()
	r.client = redimutex.NewClient(j.servers.Pools(), r.options()...)
	r.tryLock, r.waitLock = r.lock()
	r.loop()
	if r.typed {
		syscall.Kill(0, r.by) //nolint:errcheck // it can't fail; the signal is caught here
	}
	if r.by != 0 {
		return 0, cli.Signalled(r.by)
	}
	return r.status, nil
}

func (r *runner) loop() {
	r.begin(trying, r.try)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for r.state != over {
		var lost <-chan struct{}
		var command chan syscall.WaitStatus
		if r.state == running {
			lost, command = r.supervisor.loss(), r.supervisor.group.states
		}
		timer.Reset(r.next())
		select {
		case err := <-r.step:
			r.stepped(err)
		case s := <-r.signals:
			r.signalled(s.(syscall.Signal)) //nolint:forcetypeassert // on Unix all are
		case status := <-command:
			r.changed(status)
		case <-lost:
		case <-timer.C:
		}
		r.due()
	}
}

// begin enters a state with a step.
func (r *runner) begin(s state, step func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.enter(s)
	go func() {
		defer cancel()
		r.step <- step(ctx)
	}()
}

func (r *runner) enter(s state) { r.state, r.since = s, time.Now() }

// stepped handles the outcome of a step.
func (r *runner) stepped(err error) {
	switch r.state {
	case trying, waiting:
		r.acquired(err)
	case cancelled:
		r.finish(0)
	case releasing:
		if err != nil && r.status == cli.OK {
			r.status = cli.Unavailable
		}
		r.enter(over)
	case running, outlived, over: // no step is under way
	}
}

// finish releases what this run has.
func (r *runner) finish(status int) {
	r.status = status
	if r.supervisor != nil {
		r.supervisor.release()
	}
	r.begin(releasing, r.release)
}

// patience is how long a clean-up may take before a second signal skips it. A clean-up takes some milliseconds unless a server
// hangs, and timeout(1) sends each signal twice.
const patience = 500 * time.Millisecond

// next returns how long the loop may wait for an event.
func (r *runner) next() time.Duration {
	switch {
	case r.state == running:
		return r.supervisor.next()
	case r.state == outlived:
		return 5 * time.Millisecond
	case r.hurry:
		return max(time.Until(r.since.Add(patience)), 0)
	}
	return time.Hour
}

// due does what is due at this time.
func (r *runner) due() {
	switch r.state {
	case running:
		r.supervisor.check()
	case outlived:
		r.supervisor.check()
		spared := !r.supervisor.ending() && time.Since(r.since) >= r.grace // the TERM was not for a lost lock
		if r.supervisor.killed || spared || !r.supervisor.group.alive() {
			r.finish(r.status)
		}
	case cancelled, releasing:
		if r.hurry && time.Since(r.since) >= patience {
			r.skip()
		}
	case trying, waiting, over:
	}
}

// skip ends this run without the rest of the clean-up.
func (r *runner) skip() {
	switch words := fmt.Sprintf("the lock %q is not given back, so it stays until its TTL is over", r.name); {
	case r.supervisor == nil:
	case r.covered() || r.supervisor.ending():
		r.notes.say("%s", words)
	default:
		r.notes.say("%s; %s", words, r.tooEarly())
		r.status = cmp.Or(r.status, cli.Unavailable)
	}
	r.enter(over)
}

// signalled handles a signal according to the state.
func (r *runner) signalled(s syscall.Signal) {
	switch r.state {
	case running, outlived:
		r.supervisor.pass(s)
	case trying, waiting:
		if ends(s) { // other signals have no receiver yet
			r.by = s
			r.cancel()
			r.enter(cancelled)
		}
	case cancelled, releasing:
		r.hurry = r.hurry || ends(s)
	case over:
	}
}

// start starts the command, unless a terminating signal has come since the lock was acquired.
func (r *runner) start() {
	cli.Catch(r.signals, syscall.SIGTSTP) // until now it simply stopped this process
	var early []syscall.Signal
	for range len(r.signals) {
		s := (<-r.signals).(syscall.Signal) //nolint:forcetypeassert // on Unix all are
		if ends(s) {
			r.by = s
			r.finish(0)
			return
		}
		early = append(early, s)
	}
	if r.lease.Err() != nil { // this process was stopped after it got the lock
		r.notes.say("the lock %q was lost before the command could start", r.name)
		r.finish(cli.Unavailable)
		return
	}
	group, err := startGroup(r.job, r.t, environment(os.Environ(), r.job, r.lease.Fence(), r.lease.Token()))
	if err != nil {
		status, words := r.cannotRun(err)
		r.notes.say("%s", words)
		r.finish(status)
		return
	}
	r.supervisor, r.started = &supervisor{runner: r, group: group}, time.Now()
	r.enter(running)
	for _, s := range early {
		r.supervisor.pass(s)
	}
}

// changed handles a change of the command: it was stopped, or has ended.
func (r *runner) changed(status syscall.WaitStatus) {
	switch {
	case status.Stopped():
		r.supervisor.follow(status.StopSignal())
		return
	case !status.Signaled():
		r.status = status.ExitStatus()
	default:
		r.status = 128 + int(status.Signal())
		if !r.supervisor.termed() { // after a loss, do not die of the signal that redimutex has sent
			r.by = status.Signal()
			r.typed = r.supervisor.group.typed(r.by)
		}
	}
	// A TERM may come from a redimutex run around this one that has lost its lock. After its grace it kills this process, and
	// only by that the rest of this group (see guard). So stay until then, or until the group has ended.
	nested := os.Getenv(envHolds) != "" && r.supervisor.group.passed[syscall.SIGTERM]
	if r.supervisor.termed() || nested {
		r.enter(outlived)
		return
	}
	r.finish(r.status)
}

// ends reports whether a signal ends the wait for the lock.
func ends(s syscall.Signal) bool {
	switch s {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGALRM:
		return true
	}
	return false
}

// catch delivers the signals that are passed on to a channel. One that the parent process made this one ignore, as nohup does,
// stays ignored; in the command too, as far as the Go runtime allows: HUP, INT, and those that stop a process.
func catch() chan os.Signal {
	signals := make(chan os.Signal, 64)
	cli.Catch(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGALRM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT)
	// If no process reads stderr any more, that must not kill this process while the command runs.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signals
}
