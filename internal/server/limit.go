package server

import (
	"context"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
)

// maxStuck is how many operations of one node may be stuck beyond their bound.
const maxStuck = 16

// A limit bounds how many operations a node that hangs can keep: each is a goroutine, and a connection or a dial, that
// nothing can end. So many may run as have come back in time before; as with a TCP connection that number
// grows while they do, and falls back when one does not.
type limit struct {
	mu      sync.Mutex
	running int
	window  int             // how many may run
	waiting []chan struct{} // for their turn, in order
}

// enter waits until one more may run. It fails when the time is over.
func (l *limit) enter(ctx context.Context, end time.Time) error {
	l.mu.Lock()
	l.window = max(l.window, maxStuck)
	if l.running < l.window && len(l.waiting) == 0 {
		l.running++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	var err error
	select {
	case <-turn:
		return nil
	case <-timer.C:
		err = conn.Plain(&stuckError{})
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, t := range l.waiting {
		if t == turn {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return err
		}
	}
	return nil // it was our turn just then
}

// leave ends an operation that came back in time, or late.
func (l *limit) leave(inTime bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if inTime && l.running == l.window {
		l.window++
	}
	l.running--
	for l.running < l.window && len(l.waiting) > 0 {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.running++
	}
}

// overdue notes that an operation which still runs is beyond its bound.
func (l *limit) overdue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.window = maxStuck
}

type stuckError struct{}

func (*stuckError) Error() string { return "too many operations are stuck on this server" }
func (*stuckError) Timeout() bool { return true }
