package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// halted returns a Trace that stops a call when it begins to wait, until goOn is called.
func halted() (trace *redimutex.Trace, waits <-chan struct{}, goOn func()) {
	in, out := make(chan struct{}), make(chan struct{})
	return &redimutex.Trace{Waiting: func(redimutex.Event) { close(in); <-out }}, in, func() { close(out) }
}

// The time of a parked grant may end while a caller that gives up has the turn. If then no caller could release the grant, its
// key would be renewed for ever.
func TestAGrantThatIsParkedForAWaiterWhoGivesUpIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reuse time.Duration
		end   func(c *redimutex.Client)
	}{
		"by the waiter": {200 * time.Millisecond, func(*redimutex.Client) { <-time.After(400 * time.Millisecond) }},
		"by Close":      {long, func(c *redimutex.Client) { assert.NoError(t, c.Close()) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			client := newClient(t, s.Pool(), redimutex.WithLeaseReuse(c.reuse), redimutex.WithTTL(3*long))
			trace, waits, goOn := halted()
			client.Observe(trace)
			holder := client.Mutex("k")
			holder.Lock()
			ctx, cancel := context.WithCancel(t.Context())
			gaveUp := make(chan error)
			go func() { gaveUp <- client.Mutex("k").LockContext(ctx, 0) }()
			<-waits
			holder.Unlock() // now the waiter has the turn
			cancel()
			c.end(client)
			goOn()
			require.ErrorIs(t, <-gaveUp, context.Canceled)
			redistest.Wait(t, "the key is gone", func() bool { return len(s.Keys()) == 0 })
			assert.Empty(t, client.Locks())
		})
	}
}

// Close has already looked for parked grants, but has not ended the holds yet.
func TestAHoldThatIsUnlockedDuringCloseIsNotKept(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), redimutex.WithLeaseReuse(long), redimutex.WithTTL(3*long))
	held := map[string]*redimutex.Mutex{"a": c.Mutex("a"), "b": c.Mutex("b")}
	for _, m := range held {
		m.Lock()
	}
	var first sync.Once
	c.Observe(&redimutex.Trace{Lost: func(e redimutex.Event) {
		first.Do(func() {
			delete(held, e.Key)
			unlocked := make(chan struct{})
			for _, m := range held {
				go func() { m.Unlock(); close(unlocked) }()
			}
			<-unlocked
		})
	}})
	require.NoError(t, c.Close())
	assert.Len(t, s.Keys(), 1, "the key of the hold that was lost")
}

// A grant may serve a million holds.
func TestAGrantForgetsTheHoldsThatAreOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newClient(t, s.Pool(), redimutex.WithLeaseReuse(long), redimutex.WithTTL(3*long)).Mutex("k")
	var holds []weak.Pointer[redimutex.Lease]
	for range 10 {
		require.NoError(t, m.Do(t.Context(), func(context.Context) error {
			holds = append(holds, weak.Make(m.Lease()))
			return nil
		}))
	}
	m.Lock() // the last hold is remembered
	m.Unlock()
	redistest.Wait(t, "the holds are garbage", func() bool {
		runtime.GC()
		for _, l := range holds {
			if l.Value() != nil {
				return false
			}
		}
		return true
	})
}

// A lease that is kept for holds with other options is released in the background. The next caller waits for that release,
// however long it has been in line.
func TestWhoWasInLineForLongWaitsForWhatItsProcessGivesBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), redimutex.WithTTL(3*long), redimutex.WithNodeTimeout(time.Second))
	var failed atomic.Int64
	first := c.Mutex("k", redimutex.WithLeaseReuse(long))
	next := c.Mutex("k", redimutex.WithTrace(&redimutex.Trace{Attempt: func(e redimutex.Event) {
		if errors.Is(e.Err, redimutex.ErrLocked) {
			failed.Add(1)
		}
	}}))
	first.Lock()
	locked := make(chan struct{})
	go func() { next.Lock(); close(locked) }()
	locktest.WaitInLine(t, c, 1)
	time.Sleep(1200 * time.Millisecond) // longer than a node timeout
	first.Unlock()
	<-locked
	assert.Zero(t, failed.Load(), "tries that found our own lock")
	next.Unlock()
}

// keyGone is a log that passes on its records.
type keyGone struct{ told chan slog.Record }

func (k keyGone) Enabled(context.Context, slog.Level) bool { return true }
func (k keyGone) WithAttrs([]slog.Attr) slog.Handler       { return k }
func (k keyGone) WithGroup(string) slog.Handler            { return k }
func (k keyGone) Handle(_ context.Context, r slog.Record) error {
	k.told <- r
	return nil
}

func TestALossThatUnlockCouldNotSeeIsToldWhenTheLockIsReleasedForGood(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(s *redistest.Server){
		"deleted": func(s *redistest.Server) { s.Do("DEL", "k") },
		"taken":   func(s *redistest.Server) { s.Do("SET", "k", "foreign", "PX", 600_000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			log := keyGone{make(chan slog.Record, 10)}
			c := newClient(t, s.Pool(), redimutex.WithLogger(slog.New(log)),
				redimutex.WithLeaseReuse(time.Second), redimutex.WithTTL(time.Minute))
			m := c.Mutex("k")
			require.NoError(t, m.Do(t.Context(), func(context.Context) error {
				gone(s)
				return nil
			}), "it asks no server")
			r := <-log.told
			assert.Contains(t, r.Message, "lost")
			r.Attrs(func(a slog.Attr) bool {
				if a.Key == "err" {
					assert.ErrorIs(t, a.Value.Any().(error), redimutex.ErrLost)
					assert.ErrorContains(t, a.Value.Any().(error), name)
				}
				return true
			})
			assert.EqualValues(t, 1, c.Stats().LostDeleted+c.Stats().LostTaken)
		})
	}
}

func TestAnUnlockThatReleasesForGoodReportsTheLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newClient(t, s.Pool(), redimutex.WithLeaseReuse(time.Millisecond), redimutex.WithTTL(time.Minute)).Mutex("k")
	m.Lock()
	s.Do("DEL", "k")
	began := time.Now()
	redistest.Wait(t, "the reuse to be over", func() bool { return time.Since(began) > 2*time.Millisecond })
	assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
}

// holdBack makes the next command about a token wait until the returned channel is closed.
func holdBack(pool *redistest.Between, token string) (release chan struct{}) {
	release = make(chan struct{})
	var caught atomic.Bool
	pool.Set(func(command redistest.Command) (any, error) {
		if mentions(command.Args, token) && !caught.Swap(true) {
			<-release
		}
		return command.Run()
	})
	return release
}

func mentions(args []any, token string) bool {
	for _, a := range args {
		switch a := a.(type) {
		case string:
			if strings.Contains(a, token) {
				return true
			}
		case []byte:
			if strings.Contains(string(a), token) {
				return true
			}
		}
	}
	return false
}

func TestAnExtendThatComesToItsTurnAfterItsHoldLeavesTheNextHoldAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, real := redistest.Virtual(t)
		pool := redistest.NewBetween(real)
		m := newClient(t, pool, redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(4*time.Second),
			redimutex.WithLeaseReuse(2*time.Second), redimutex.WithoutRenewal()).Mutex("k")
		m.Lock()
		first := m.Lease()
		require.NoError(t, first.Extend(t.Context(), 10*time.Second), "the server knows the script from here on")
		release := holdBack(pool, first.Token())
		go first.Extend(t.Context(), 20*time.Second) //nolint:errcheck // it is in the way, and no more
		synctest.Wait()
		late := make(chan error, 1)
		go func() { late <- first.Extend(t.Context(), 50*time.Millisecond) }()
		synctest.Wait()
		require.NoError(t, m.UnlockContext(t.Context()))
		require.NoError(t, m.LockContext(t.Context(), 3*time.Second))
		second := m.Lease()
		close(release)
		if err := <-late; err != nil { // otherwise it was answered before its hold ended
			assert.ErrorIs(t, err, redimutex.ErrUnlocked)
		}
		time.Sleep(time.Second)
		assert.NoError(t, second.Err(), "nobody has extended this hold")
		assert.Greater(t, time.Until(second.Until()), 3*time.Second)
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

func TestAnExtendEndsWithItsHold(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redimutex.Option{
		"renewed": nil, "not renewed": {redimutex.WithoutRenewal()}, "queue": {redimutex.WithQueue()}, "fencing": {redimutex.WithFencing()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, pool := redistest.Virtual(t)
				const ttl = 10 * time.Second
				opts := append(opts, redimutex.WithTTL(ttl), redimutex.WithLeaseReuse(4*time.Second))
				m := newClient(t, pool, opts...).Mutex("k")
				m.Lock()
				require.NoError(t, m.Lease().Extend(t.Context(), time.Hour))
				require.NoError(t, m.UnlockContext(t.Context()))
				time.Sleep(time.Second) // time for the work in the background
				assert.LessOrEqual(t, server.TTL("k"), ttl, "nobody holds the lock, and after a crash nobody could for an hour")
				require.NoError(t, m.LockContext(t.Context(), time.Second))
				assert.LessOrEqual(t, time.Until(m.Lease().Until()), ttl, "the next hold has what it has asked for")
				assert.LessOrEqual(t, server.TTL("k"), ttl)
				time.Sleep(20 * ttl)
				assert.LessOrEqual(t, server.TTL("k"), ttl, "and renewals ask for no more")
				_ = m.UnlockContext(t.Context()) // without renewal it is lost by now
			})
		})
	}
}
