package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Signalled is the error of a verb that a signal has ended. The process then dies of the same signal, so that the shell, make
// or supervisor that started it sees the reason: a script then stops, and does not go on.
type Signalled syscall.Signal

func (s Signalled) Error() string { return "ended by " + syscall.Signal(s).String() }

// Status returns the exit status with which a shell reports the signal.
func (s Signalled) Status() int { return 128 + int(s) }

// Main runs the program with the arguments, input and output of this process, and ends the process.
func Main(all []*Command) {
	t := &Terminal{In: os.Stdin, Out: NewOutput(os.Stdout), Err: os.Stderr}
	status := Dispatch(all, os.Args[1:], t)
	if t.ended != 0 {
		dieOf(syscall.Signal(t.ended))
	}
	os.Exit(status)
}

// Catch delivers signals to c, except those that the parent process made this one ignore, as nohup does.
func Catch(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// Rest waits for d, or until ctx ends. It returns false if ctx has ended.
func Rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// UntilSignal returns a context that ends with a terminating signal, if this process does not ignore that. A second signal
// ends the process, which may hang in a write. timeout(1) sends each signal twice, which counts as one.
func UntilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	Catch(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		select {
		case s := <-signals:
			cancel(Signalled(s.(syscall.Signal))) //nolint:forcetypeassert // one of those asked for
			time.Sleep(500 * time.Millisecond)
			signal.Stop(signals)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}
