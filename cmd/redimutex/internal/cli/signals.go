package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signalled is the error that says which signal ended a command.
type Signalled syscall.Signal

func (s Signalled) Error() string { return "ended by " + syscall.Signal(s).String() }

// Status is the exit status of a command that a signal ended.
func (s Signalled) Status() int { return 128 + int(s) }

// UntilSignal returns a context that a signal to end ends; but for those that our parent has us ignore, as nohup does.
func UntilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		select {
		case s := <-signals:
			cancel(Signalled(s.(syscall.Signal))) //nolint:forcetypeassert // the ones that we asked for
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}
