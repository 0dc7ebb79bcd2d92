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

// Commands are run, and the verbs of the processes that it starts for itself.
func Commands() []*cli.Command { return []*cli.Command{command(), guardian(), starter()} }

// A state is where a run stands. One loop goes from state to state:
//
//	trying    -> running      the lock was free
//	trying    -> waiting      another holder has it, and we may wait
//	waiting   -> running
//	trying, waiting -> cancelled    by a signal
//	running   -> outlived     COMMAND was ended because of a lock, and others of its group have not ended yet
//	releasing                 from each of these: gives the lock back, and undoes what a try has left
//	over                      from releasing, or from cancelled and releasing by a second signal
//
// In trying, waiting, cancelled and releasing one step is under way, on a goroutine of its own. Its outcome ends the
// state. The loop does everything else.
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
	locked   error  // that of the first try; nil while there was none
	watch    *watch // of COMMAND; nil before it runs

	state  state
	step   chan error         // the outcome of the step that is under way
	cancel context.CancelFunc // ends that step
	since  time.Time          // of this state
	hurry  bool               // a second signal has come

	status int            // how we end
	by     syscall.Signal // or by this signal
	typed  bool           // at the terminal: those that would have got it too, were COMMAND in our group, have not

	failing     sync.Once             // for saying that the servers fail
	lastRenewal atomic.Pointer[error] // nil after a good one
}

// run waits for the lock, runs the command and gives the lock back. It returns the exit status, or the signal that
// ended it.
func (j *job) run(t *cli.Terminal) (int, error) {
	r := &runner{job: j, t: t, notes: newNotes(t.Err), signals: catch(), step: make(chan error, 1), began: time.Now()}
	defer r.notes.flush()
	defer j.servers.Close()
	r.client = redimutex.NewClient(j.servers.Pools(), r.options()...)
	r.tryLock, r.waitLock = r.lock()
	r.loop()
	if r.typed {
		syscall.Kill(0, r.by) //nolint:errcheck // it can't fail; we catch it
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
		if r.watch != nil {
			lost, command = r.watch.loss(), r.watch.group.states
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

// begin goes to a state in which a step is under way.
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

// stepped takes the outcome of a step.
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

// finish gives back what we have.
func (r *runner) finish(status int) {
	r.status = status
	if r.watch != nil {
		r.watch.release()
	}
	r.begin(releasing, r.release)
}

// patience is how long a clean-up may take before a second signal skips it. It takes some milliseconds unless a
// server hangs, and timeout(1) sends each signal twice.
const patience = 500 * time.Millisecond

// next is how long the loop has nothing to do if nothing happens.
func (r *runner) next() time.Duration {
	switch {
	case r.state == running:
		return r.watch.next()
	case r.state == outlived:
		return 5 * time.Millisecond
	case r.hurry:
		return max(time.Until(r.since.Add(patience)), 0)
	}
	return time.Hour
}

// due does what only the time says.
func (r *runner) due() {
	switch r.state {
	case running:
		r.watch.check()
	case outlived:
		r.watch.check()
		spared := !r.watch.ending() && time.Since(r.since) >= r.grace // the TERM was not for a lost lock
		if r.watch.killed || spared || !r.watch.group.alive() {
			r.finish(r.status)
		}
	case cancelled, releasing:
		if r.hurry && time.Since(r.since) >= patience {
			r.skip()
		}
	case trying, waiting, over:
	}
}

// skip ends us without the rest of the clean-up.
func (r *runner) skip() {
	switch words := fmt.Sprintf("the lock %q is not given back, so it stays until its TTL is over", r.name); {
	case r.watch == nil:
	case r.covered() || r.watch.ending():
		r.notes.say("%s", words)
	default:
		r.notes.say("%s; %s", words, r.tooEarly())
		r.status = cmp.Or(r.status, cli.Unavailable)
	}
	r.enter(over)
}

// signalled does what a signal means in this state.
func (r *runner) signalled(s syscall.Signal) {
	switch r.state {
	case running, outlived:
		r.watch.pass(s)
	case trying, waiting:
		if ends(s) { // others have no addressee yet
			r.by = s
			r.cancel()
			r.enter(cancelled)
		}
	case cancelled, releasing:
		r.hurry = r.hurry || ends(s)
	case over:
	}
}

// start starts the command, unless a signal has come since the lock was acquired.
func (r *runner) start() {
	cli.Catch(r.signals, syscall.SIGTSTP) // until now it just stopped us
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
	if r.lease.Err() != nil { // we were stopped after we got the lock
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
	r.watch = &watch{runner: r, group: group, got: time.Now()}
	r.enter(running)
	for _, s := range early {
		r.watch.pass(s)
	}
}

// changed takes what has become of the command.
func (r *runner) changed(status syscall.WaitStatus) {
	switch {
	case status.Stopped():
		r.watch.follow(status.StopSignal())
		return
	case !status.Signaled():
		r.status = status.ExitStatus()
	default:
		r.status = 128 + int(status.Signal())
		if !r.watch.termed() { // a loss is no reason to die of what we have sent ourselves
			r.by = status.Signal()
			r.typed = r.watch.group.typed(r.by)
		}
	}
	// A TERM may come from a redimutex run around us that has lost its lock. It kills us after its grace, and with us
	// what is left of our group, of which it does not know.
	nested := os.Getenv(envHolds) != "" && r.watch.group.passed[syscall.SIGTERM]
	if r.watch.termed() || nested {
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

// catch has all signals that we pass on delivered to a channel. What our parent has us ignore, as nohup does, we go on
// ignoring, and so does the command, as far as the Go runtime leaves it so: HUP, INT, and what stops a process.
func catch() chan os.Signal {
	signals := make(chan os.Signal, 64)
	cli.Catch(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGALRM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT)
	// When nothing reads our stderr any more, that must not kill us while the command runs.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signals
}
