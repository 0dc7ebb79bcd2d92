package bounds_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/redistest/bounds"
)

// Close may meet a renewal that waits for a stopped replica, or for a primary that hangs.
func TestCloseTakesTwoNodeTimeoutsAndThatOfTheReplicas(t *testing.T) {
	t.Parallel()
	const (
		node     = 200 * time.Millisecond
		replicas = 800 * time.Millisecond
	)
	for name, hang := range map[string]bool{"the replica is stopped": false, "the primary hangs as well": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, others := redistest.Replicas(t, 1)
			f := redistest.NewFront(t, primary)
			var took, late time.Duration
			for range attempts {
				took, late = closing(t, f, others[0], node, replicas, hang)
				if took <= 2*node+replicas+tolerance {
					break // otherwise the machine may have been late
				}
			}
			assert.LessOrEqual(t, took, 2*node+replicas+tolerance+late)
		})
	}
}

// closing closes a Client while a renewal is under way that can't succeed, and while a caller waits in the queue. If the
// primary hangs, a try is under way as well.
func closing(t *testing.T, f *redistest.Front, replica *redistest.Server, node, replicas time.Duration, hang bool) (took, late time.Duration) {
	t.Helper()
	pool := f.Pool()
	client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(3*time.Second), redimutex.WithNodeTimeout(node))
	m := client.Mutex("k", redimutex.WithReplicas(1, replicas))
	queued := client.Mutex("queued", redimutex.WithQueue())
	require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
	c := pool.Get()
	_, err := c.Do("SET", "queued", "another holder", "PX", 60000)
	require.NoError(t, err)
	c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var others sync.WaitGroup
	others.Go(func() { queued.LockContext(ctx, 0) }) //nolint:errcheck // Close ends it
	replica.Pause()
	defer replica.Resume()
	lost, renewing := m.Lease().Done(), make(chan struct{})
	var once sync.Once
	f.On(func(command []string) redistest.Fate {
		if slices.Contains(command, "k") {
			once.Do(func() {
				if hang {
					f.Hang(redistest.AtCommand) // from the next command on, which is the WAIT
				}
				close(renewing)
			})
		}
		return redistest.Fate{}
	})
	select {
	case <-renewing:
	case <-lost: // the machine stood still before the renewal could come
		hang, took = false, time.Hour
	}
	f.On(nil)
	if hang {
		met := f.Hung()
		others.Go(func() { client.Mutex("another").TryLockContext(ctx) }) //nolint:errcheck // it can't succeed
		redistest.Wait(t, "the try", func() bool { return f.Hung() > met })
	}
	lateness := redistest.MeasureLateness()
	began := time.Now()
	require.NoError(t, client.Close())
	took += time.Since(began)
	late = lateness.Stop()
	others.Wait()
	f.Lift()
	m.UnlockContext(t.Context()) //nolint:errcheck // the lock is lost
	return took, late
}

// With several servers, Unlock returns when a majority has answered. The releases on the other servers go on, and the try may
// still have something to do there, too.
func TestCloseTakesTwoNodeTimeoutsThoughAServerHasNotAnsweredTheReleaseYet(t *testing.T) {
	t.Parallel()
	const node = 400 * time.Millisecond
	var fronts []*redistest.Front
	var pools []redimutex.Pool
	for range 3 {
		f := redistest.NewFront(t, redistest.Start(t))
		pool := &redis.Pool{MaxIdle: 10, DialContext: redimutex.Dialer("tcp", f.Addr())}
		defer pool.Close()
		fronts, pools = append(fronts, f), append(pools, pool)
	}
	for _, early := range []bool{false, true} { // true: the server already hangs when the lock is taken
		var took, late time.Duration
		for range attempts {
			client := redimutex.NewClient(pools, redimutex.WithTTL(20*time.Second), redimutex.WithNodeTimeout(node))
			m := client.Mutex("k")
			require.NoError(t, m.LockContext(t.Context(), time.Minute))
			if early {
				_ = m.UnlockContext(t.Context()) // on a late machine it goes on in the background, and Close is bounded all the same
			}
			fronts[2].Hang(redistest.AtCommand)
			if early {
				require.NoError(t, m.LockContext(t.Context(), time.Minute))
			}
			_ = m.UnlockContext(t.Context())
			lateness := redistest.MeasureLateness()
			began := time.Now()
			require.NoError(t, client.Close())
			took, late = time.Since(began), lateness.Stop()
			fronts[2].Lift()
			if took <= 2*node+tolerance {
				break // otherwise the machine may have been late
			}
		}
		assert.LessOrEqual(t, took, 2*node+tolerance+late)
	}
}

// Many round trips of releases share few connections.
func TestCloseReleasesAllThatIsKeptOverASmallPool(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := s.Pool()
	pool.MaxActive = 2
	client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(10*time.Minute), redimutex.WithNodeTimeout(20*time.Second),
		redimutex.WithLeaseReuse(2*time.Minute))
	for i := range 1500 {
		m := client.Mutex(strconv.Itoa(i))
		require.NoError(t, m.LockContext(t.Context(), time.Minute))
		require.NoError(t, m.UnlockContext(t.Context()))
	}
	require.NoError(t, client.Close())
	assert.Empty(t, s.Keys())
}

// Each release and each batch of the last releases must not dial a connection of its own.
func TestCloseReleasesThousandsOfLocksOverAFewHundredConnectionsThoughTheServerHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := redistest.NewFront(t, s)
	client := redimutex.NewClient([]redimutex.Pool{redimutex.NewPoolAt("tcp", f.Addr())}, redimutex.WithTTL(10*time.Minute),
		redimutex.WithNodeTimeout(2*time.Second), redimutex.WithLeaseReuse(2*time.Minute))
	for i := range 3000 {
		m := client.Mutex(strings.Repeat("k", 200) + strconv.Itoa(i))
		require.NoError(t, m.LockContext(t.Context(), time.Minute))
		require.NoError(t, m.UnlockContext(t.Context()))
	}
	f.Hang(redistest.AtCommand)
	require.NoError(t, client.Close())
	f.Lift()
	assert.LessOrEqual(t, f.Most(), 600)
}

// After Close, nothing would repeat the release.
func TestUnlockAfterCloseDeletesTheKeyThoughThePoolIsFull(t *testing.T) {
	t.Parallel()
	fullPool(t, func(m *redimutex.Mutex, use func()) {
		require.NoError(t, m.Client().Close())
		use()
		assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrClosed)
	})
}

func TestCloseReleasesWhatIsLeftThoughThePoolIsFull(t *testing.T) {
	t.Parallel()
	t.Run("parked", func(t *testing.T) {
		fullPool(t, func(m *redimutex.Mutex, use func()) {
			m.Unlock()
			use()
			require.NoError(t, m.Client().Close())
		}, redimutex.WithLeaseReuse(time.Minute))
	})
	t.Run("cut short", func(t *testing.T) {
		fullPool(t, func(m *redimutex.Mutex, use func()) {
			use()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			assert.ErrorIs(t, m.UnlockContext(ctx), redimutex.ErrUnavailable)
			require.NoError(t, m.Client().Close())
		})
	})
}

// The server may take no more connections, so the next extensions wait for a connection of the pool. A release does not.
func TestAReleaseDialsBesideAFullPoolAlsoAfterAnExtensionThatCouldNot(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := s.Pool()
	pool.MaxActive, pool.Wait = 2, true
	dial, down := pool.Dial, atomic.Bool{}
	pool.Dial = func() (redis.Conn, error) {
		if down.Load() {
			return nil, errors.New("no more connections")
		}
		return dial()
	}
	m := redimutex.New(pool, "k", redimutex.WithTTL(10*time.Minute), redimutex.WithNodeTimeout(time.Second))
	defer m.Client().Close()
	require.NoError(t, m.LockContext(t.Context(), time.Minute))
	users := []redis.Conn{pool.Get(), pool.Get()}
	down.Store(true)
	require.ErrorIs(t, m.Lease().Extend(t.Context(), 10*time.Minute), redimutex.ErrUnavailable)
	down.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, m.UnlockContext(ctx), redimutex.ErrUnavailable)
	redistest.Wait(t, "the lock is released", func() bool { return !s.Exists("k") })
	for _, user := range users {
		require.NoError(t, user.Close())
	}
}

// fullPool runs test with a locked Mutex, and with a function that takes all connections of the pool. No key may remain.
func fullPool(t *testing.T, test func(m *redimutex.Mutex, use func()), opts ...redimutex.Option) {
	for name, wait := range map[string]bool{"waits": true, "fails": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			pool := s.Pool()
			pool.MaxActive, pool.Wait = 2, wait
			client := redimutex.NewClient([]redimutex.Pool{pool}, append(opts, redimutex.WithTTL(10*time.Minute), redimutex.WithNodeTimeout(time.Second))...)
			m := client.Mutex("k")
			require.NoError(t, m.LockContext(t.Context(), time.Minute))
			var users []redis.Conn
			test(m, func() { users = append(users, pool.Get(), pool.Get()) })
			assert.Empty(t, s.Keys())
			for _, user := range users {
				require.NoError(t, user.Close())
			}
		})
	}
}

// The remaining releases take several round trips, and the server answers none of them.
func TestNothingIsSentAfterCloseHoweverMuchIsLeftToRelease(t *testing.T) {
	const held = 800
	f := redistest.NewFront(t, redistest.Start(t)) // no other test runs beside this one, because goroutines are counted
	var writes atomic.Int64
	pool := redimutex.NewPoolAt("tcp", f.Addr(), redis.DialNetDial(func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		return countedConn{c, &writes}, err
	}))
	defer pool.Close()
	client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(200*time.Millisecond))
	var releases sync.WaitGroup
	hung := make(chan struct{})
	for i := range held {
		m := client.Mutex(strconv.Itoa(i))
		require.NoError(t, m.LockContext(t.Context(), time.Minute))
		releases.Go(func() {
			<-hung
			m.UnlockContext(t.Context()) //nolint:errcheck // no answer comes
		})
	}
	f.Hang(redistest.AtCommand)
	close(hung)
	releases.Wait()
	require.NoError(t, client.Close())
	before := writes.Load()
	redistest.Wait(t, "nothing runs", func() bool { return locktest.Goroutines() == 0 })
	assert.Less(t, writes.Load()-before, int64(10), "one of each goroutine may have been on its way")
}

// A countedConn counts the writes.
type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// The most that a hanging server may cost a process, however long it hangs: connections to it, and goroutines besides those
// that wait for their locks. The limits are generous.
const (
	mostConnections = 100
	mostGoroutines  = 120
)

// If an operation hangs in a pool without timeouts, its connection never comes back.
func TestAServerThatHangsCostsFewConnectionsAndGoroutines(t *testing.T) {
	redistest.Needs(t, redistest.ACL)
	for name, c := range map[string]struct {
		phase redistest.Phase
		make  func(bounds.Address) redimutex.Pool
	}{
		"dial":               {redistest.AtDial, bounds.Documented},
		"authentication":     {redistest.AtAuth, bounds.Documented},
		"command":            {redistest.AtCommand, bounds.Documented},
		"Get alone, command": {redistest.AtCommand, bounds.NewGetAlone},
		"NewPool, command":   {redistest.AtCommand, bounds.NewPool},
	} {
		t.Run(name, func(t *testing.T) { // not parallel, because goroutines are counted
			s := redistest.Start(t)
			bounds.AddUser(s)
			f := redistest.NewFront(t, s)
			pool := c.make(bounds.Address{HostPort: f.Addr(), DB: 1})
			var tries atomic.Int64
			client := redimutex.NewClient([]redimutex.Pool{pool},
				redimutex.WithTrace(&redimutex.Trace{Attempt: func(redimutex.Event) { tries.Add(1) }}),
				redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(20*time.Millisecond), redimutex.WithPollInterval(5*time.Millisecond))
			f.Hang(c.phase)
			const callers = 16
			ctx, cancel := context.WithCancel(t.Context())
			var team sync.WaitGroup
			for i := range callers {
				team.Go(func() { client.Mutex(string(rune('a'+i))).LockContext(ctx, 0) }) //nolint:errcheck // it can't succeed
			}
			redistest.Wait(t, "many tries of each", func() bool { return tries.Load() >= 12*callers })
			assert.LessOrEqual(t, f.Most(), mostConnections, "connections at once")
			assert.LessOrEqual(t, locktest.Goroutines(), mostGoroutines, "goroutines")
			cancel()
			team.Wait()
			f.Lift()
			require.NoError(t, client.Close())
		})
	}
}
