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

// A Locker makes one machine run each tick of a job. It is for jobs that are due at the same time on all machines.
type Locker struct {
	client  *redimutex.Client
	prefix  string
	minHold time.Duration
	opts    []redimutex.Option
	again   time.Duration // how long tries are repeated because votes may have been split; 0: not at all
	ticks   ticks
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker whose locks are named prefix plus the name of the job, which is the name of its function unless
// gocron.WithName sets another. minHold is how long a lock stays at least: longer than the clocks of the machines differ, and
// shorter than the time between two ticks minus that difference; with several servers choose a tenth more, see [Locker.Lock].
// A machine that has crashed keeps the lock for at most one minHold more, because minHold is also the TTL, unless opts say
// otherwise.
//
// opts are those of the locks; a WithMinHold among them changes nothing. NewLocker panics if client is nil, if minHold is not
// more than 0, and for the reasons of [redimutex.Client.Mutex].
func NewLocker(client *redimutex.Client, prefix string, minHold time.Duration, opts ...redimutex.Option) *Locker {
	if client == nil {
		panic("redimutexgocron: NewLocker needs a Client, and got nil")
	}
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

// Lock tries once to lock the job called name, and renews the lock until it is unlocked. It returns an error that matches
// [redimutex.ErrLocked] if another machine has run this tick, or still runs it.
//
// gocron shows errors only to a listener of gocron.AfterLockError, and leaves the tick out. So Lock logs every error that does
// not match ErrLocked, to the logger of the lock (see [redimutex.WithLogger]), unless ctx has ended because the scheduler
// shuts down. It also logs if a machine asks for the next tick within the minimum hold of the tick before. That tick is left
// out on all machines.
//
// With several servers, machines that come at the same time may split the votes, so that none has a majority. So a machine
// that finds the lock taken tries a few times more, for at most a tenth of the minimum hold.
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

// reserved is the beginning of names that no lock can have.
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

// sleep waits for d. It reports false if ctx ended first.
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

// Unlock releases the lock, which stays until its minimum hold is over. gocron drops the error, so Unlock logs it.
func (l lock) Unlock(ctx context.Context) error {
	err := l.mutex.UnlockContext(ctx)
	if err != nil {
		l.mutex.Logger().Error("redimutexgocron: the lock of a job", "key", l.mutex.Key(), "err", err)
	}
	return err
}
