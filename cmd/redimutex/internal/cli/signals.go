package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Signalled is the error of a verb that a signal has ended. The process dies of the same signal then, so that the
// shell, make or supervisor that has started it sees what has happened: a script stops, and does not go on.
type Signalled syscall.Signal

func (s Signalled) Error() string { return "ended by " + syscall.Signal(s).String() }

// Status is the exit status that a shell makes of it.
func (s Signalled) Status() int { return 128 + int(s) }

// Main runs the program, and ends the process.
func Main(all []*Command, t *Terminal) {
	status := Dispatch(all, os.Args[1:], t)
	if t.ended != 0 {
		dieOf(syscall.Signal(t.ended))
	}
	os.Exit(status)
}

// Catch has signals delivered to c, but for those that our parent has us ignore, as nohup does.
func Catch(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// Rest waits for d, or until ctx ends. It reports whether ctx goes on.
func Rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// UntilSignal returns a context that a signal to end ends, if we do not ignore it. A
// second one ends the process, which may hang in a write. timeout(1) sends each signal twice, which counts as one.
func UntilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	Catch(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		select {
		case s := <-signals:
			cancel(Signalled(s.(syscall.Signal))) //nolint:forcetypeassert // the ones that we asked for
			time.Sleep(500 * time.Millisecond)
			signal.Stop(signals)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}
