package redimutex

import (
	"context"
	"errors"
	"fmt"

	"github.com/redimutex/redimutex/internal/server"
)

// Downgrade makes the writer of an [RWMutex] a reader, in one step: no writer comes between, and the readers that
// wait enter too. The lease goes on, with its Token and Fence. Then [RWMutex.Lease] is nil, and [RWMutex.RUnlock] or
// [Lease.Release] ends the hold.
//
// The error matches [ErrUnlocked] after the end of the hold, and [ErrLost] when the lease was lost; then RUnlock is
// needed all the same. With [ErrUnavailable], or the cause of ctx, the outcome is unknown and counts as done. In this
// process the hold is then a reader's, and other readers may have to wait for its end. A repeat finds what the first
// call did. For any other Lease it is an error that changes nothing.
func (l *Lease) Downgrade(ctx context.Context) error {
	o := l.of
	switch o.config.terms.Kind {
	case server.Writer:
	case server.Reader:
		return fmt.Errorf("redimutex: %q: Downgrade: this is the lease of a reader already; only a writer's can be downgraded", o.key)
	default:
		return fmt.Errorf("redimutex: %q: Downgrade: only the lease of a writer of an RWMutex can be downgraded", o.key)
	}
	_ = ctx.Err() // a nil ctx panics before anything is changed
	if errors.Is(l.Err(), ErrUnlocked) {
		return unlockedError(o.key, "Downgrade")
	}
	if !l.reader.Swap(true) {
		o.reads.downgraded(l)
	}
	r, f := l.hold.Downgrade(ctx)
	if err := l.reason(r); err != nil || f == nil {
		return err
	}
	return o.unsettled(ctx, false, f)
}

// reads reports whether l is that of a reader.
func (l *Lease) reads() bool { return l.reader.Load() || l.of.config.terms.Kind == server.Reader }
