package election

import (
	"context"
	"sync/atomic"

	"github.com/redimutex/redimutex"
)

// A lead is one term of this candidate, and the context that f gets. The context looks at the clock: a process that was
// stopped for longer than its lease finds it ended when it wakes, before any timer has run.
type lead struct {
	context.Context
	cancel   context.CancelCauseFunc
	lease    *redimutex.Lease
	resigned atomic.Bool
}

// Err looks at the clock before it answers.
func (l *lead) Err() error {
	l.look()
	return l.Context.Err()
}

// Done looks at the clock before it answers.
func (l *lead) Done() <-chan struct{} {
	l.look()
	return l.Context.Done()
}

func (l *lead) look() {
	if err := l.lease.Err(); err != nil {
		l.cancel(err)
	}
}

type leadKey struct{}

func (l *lead) Value(key any) any {
	if key == (leadKey{}) {
		return l
	}
	return l.Context.Value(key)
}

// Term returns the term of the lead that ctx belongs to. ctx must be the ctx of f in [Election.Run], or derived from it. For
// any other ctx Term returns 0.
//
// The term is the fence of the lease, higher than all before. A resource that remembers the highest term it has seen, and
// refuses writes with a lower one, accepts nothing from a former leader. Nothing else can make sure of that.
func Term(ctx context.Context) int64 {
	if l, ok := ctx.Value(leadKey{}).(*lead); ok {
		return l.lease.Fence()
	}
	return 0
}
