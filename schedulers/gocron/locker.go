package gocron

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redimutex/redimutex"
)

// A Locker lets one machine run each tick of a job. It is for jobs that are due at the same time on all.
type Locker struct {
	client *redimutex.Client
	prefix string
	opts   []redimutex.Option
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker whose locks are named prefix and the name of the job, which is that of its function
// unless gocron.WithName says another. minHold is how long a lock stays at least: longer than the clocks of the
// machines differ, and shorter than the time between two ticks less that difference. A machine that has crashed
// keeps it for one minHold more, at most, because that is the TTL too, unless opts say otherwise.
//
// It panics if minHold is not more than 0, and for the reasons of [redimutex.Client.Mutex].
func NewLocker(client *redimutex.Client, prefix string, minHold time.Duration, opts ...redimutex.Option) *Locker {
	if minHold <= 0 {
		panic(fmt.Sprintf("gocron: NewLocker: the minimum hold is %v; it has to be longer than clocks differ", minHold))
	}
	opts = append([]redimutex.Option{redimutex.WithTTL(max(minHold, 10*time.Millisecond))}, opts...)
	l := &Locker{client: client, prefix: prefix, opts: append(slices.Clip(opts), redimutex.WithMinHold(minHold))}
	client.Mutex(prefix+"name", l.opts...) // panics here rather than at the first job
	return l
}

// Lock tries once to lock the job of that name, and renews the lock until it is unlocked. It returns an
// error that matches [redimutex.ErrLocked] if another machine has run this tick, or still does.
func (l *Locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	m := l.client.Mutex(l.prefix+name, l.opts...)
	if err := m.TryLockContext(ctx); err != nil {
		return nil, err
	}
	return lock{m}, nil
}

type lock struct{ mutex *redimutex.Mutex }

// Unlock leaves the lock to its minimum hold.
func (l lock) Unlock(ctx context.Context) error { return l.mutex.UnlockContext(ctx) }
