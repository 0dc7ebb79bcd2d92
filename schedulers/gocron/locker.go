package redimutexgocron

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redimutex/redimutex"
)

// A Locker lets one machine run each tick of a job. It is for jobs that are due at the same time on all.
type Locker struct {
	client  *redimutex.Client
	prefix  string
	minHold time.Duration
	opts    []redimutex.Option
	again   time.Duration // for so long votes that were split are cast again
	ticks   ticks
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker whose locks are named prefix and the name of the job, which is that of its function
// unless gocron.WithName says another. minHold is how long a lock stays at least: longer than the clocks of the
// machines differ, and shorter than the time between two ticks less that difference; with several servers longer by a
// tenth, see [Locker.Lock]. A machine that has crashed keeps it for one minHold more, at most, because that is the TTL
// too, unless opts say otherwise.
//
// It panics if minHold is not more than 0, and for the reasons of [redimutex.Client.Mutex].
func NewLocker(client *redimutex.Client, prefix string, minHold time.Duration, opts ...redimutex.Option) *Locker {
	if minHold <= 0 {
		panic(fmt.Sprintf("redimutexgocron: NewLocker: the minimum hold is %v; it has to be longer than clocks differ", minHold))
	}
	opts = append([]redimutex.Option{redimutex.WithTTL(max(minHold, 10*time.Millisecond))}, opts...)
	l := &Locker{client: client, prefix: prefix, minHold: minHold, opts: append(slices.Clip(opts), redimutex.WithMinHold(minHold))}
	if len(client.Pools()) > 1 {
		l.again = minHold / 10
	}
	client.Mutex(prefix+"name", l.opts...) // panics here rather than at the first job
	return l
}

// Lock tries once to lock the job of that name, and renews the lock until it is unlocked. It returns an
// error that matches [redimutex.ErrLocked] if another machine has run this tick, or still does.
//
// gocron shows errors to a listener of gocron.AfterLockError only, and leaves the tick out. So Lock logs every
// error that does not match ErrLocked, to the logger of the lock (see [redimutex.WithLogger]), unless ctx has ended, as
// that of a scheduler that shuts down. It also logs when a machine is asked for the next tick within the minimum hold of
// the one before, which is then left out on all machines.
//
// With several servers, machines that come at the same time may split the votes, so that none has a majority. A machine
// that finds the lock taken tries a few times more there, for a tenth of the minimum hold at most.
func (l *Locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	key := l.prefix + name
	if key == "" || strings.HasPrefix(key, reserved) {
		err := fmt.Errorf("redimutexgocron: the name of the lock of a job, %q, is empty or begins with %s, which is reserved; "+
			"choose another prefix or name", key, reserved)
		l.client.Mutex("job", l.opts...).Logger().Error("redimutexgocron: a job can't be locked and does not run", "key", key, "err", err)
		return nil, err
	}
	m := l.client.Mutex(key, l.opts...)
	before := l.ticks.begin(name, l.minHold)
	err := l.try(ctx, m)
	switch {
	case err == nil:
		l.ticks.won(name)
		return lock{m}, nil
	case ctx.Err() != nil: // the scheduler shuts down
	case !errors.Is(err, redimutex.ErrLocked):
		m.Logger().Error("redimutexgocron: a job could not be locked and does not run", "key", key, "err", err)
	case before < l.minHold && l.ticks.tell(name):
		m.Logger().Warn(fmt.Sprintf("redimutexgocron: the minimum hold, %v, is longer than the time between two ticks, %v, so ticks "+
			"are left out; or two jobs have one name", l.minHold, before.Round(time.Millisecond)), "key", key)
	}
	return nil, err
}

// reserved is how the names begin that no lock can have.
const reserved = "redimutex:"

func (l *Locker) try(ctx context.Context, m *redimutex.Mutex) error {
	began := time.Now()
	for tries := 1; ; tries++ {
		tried := time.Now()
		err := m.TryLockContext(ctx)
		if !errors.Is(err, redimutex.ErrLocked) {
			return err
		}
		took := time.Since(tried)
		if pause := took/2 + rand.N(4*took+1); tries == maxTries || time.Since(began)+pause+took > l.again || !sleep(ctx, pause) {
			return err
		}
	}
}

const maxTries = 5

// sleep reports whether ctx has not ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

type lock struct{ mutex *redimutex.Mutex }

// Unlock leaves the lock to its minimum hold. gocron drops the error, so it is logged.
func (l lock) Unlock(ctx context.Context) error {
	err := l.mutex.UnlockContext(ctx)
	if err != nil {
		l.mutex.Logger().Error("redimutexgocron: the lock of a job", "key", l.mutex.Key(), "err", err)
	}
	return err
}
