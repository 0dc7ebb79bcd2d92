package failure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// persistent are options with which a server keeps its data over a restart.
var persistent = []string{"--appendonly", "yes", "--appendfsync", "always"}

// All sixteen idle connections of the pool are broken. A renewal and a try each meet one of them.
func TestARestartOfTheServerCostsNoLeaseAndFailsNoTry(t *testing.T) {
	t.Parallel()
	for how, opts := range map[string][]redimutex.Option{
		"": nil, "fencing": {redimutex.WithFencing()}, "queue": {redimutex.WithQueue()}, "multiplexed": {redimutex.WithMultiplexing(2)},
	} {
		for _, name := range []string{"NewPool", "plain"} {
			if how != "" && (name == "plain") == (how == "queue") {
				continue // it is enough to test each option over one of the pools
			}
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				const ttl = 30 * time.Second // the restart may take that long; a renewal is due after a third of it
				s := redistest.Real(t, persistent...)
				pool := pools(t, s)[name]
				client := newClient(t, pool, append(slices.Clip(opts), redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(9*time.Second),
					redimutex.WithPollInterval(25*time.Second))...)
				held, warm := client.Mutex("held "+how), client.Mutex("warm")
				require.NoError(t, held.LockContext(t.Context(), 10*time.Second))
				warm.Lock()
				warm.Unlock()
				lease := held.Lease()
				idle(t, pool, 16)
				restart(t, s)
				for i := range 8 {
					m := client.Mutex(fmt.Sprint("free:", i))
					if i%2 == 0 {
						require.NoError(t, m.TryLockContext(t.Context()), i)
					} else { // the first try is a plain SET, and there is no time for the next poll
						require.NoError(t, m.LockContext(t.Context(), 20*time.Second), i)
					}
					require.NoError(t, m.UnlockContext(t.Context()), i)
				}
				require.NoError(t, lease.Extend(t.Context(), ttl))
				idleButBroken := pool.IdleCount()
				renewed := client.Stats().Renewed
				redistest.Wait(t, "a renewal", func() bool { return client.Stats().Renewed > renewed || lease.Err() != nil })
				require.NoError(t, lease.Err(), "with %d idle connections", idleButBroken)
				require.NoError(t, held.UnlockContext(t.Context()))
				redistest.Wait(t, "nothing is left", func() bool {
					return !s.Exists("held "+how) && !s.Exists("free:0") && !s.Exists("warm")
				})
			})
		}
	}
}

// Otherwise each of the idle connections would cost a node timeout.
func TestAFirewallThatForgetsIdleConnectionsCostsNoLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const n = 8
	for name := range pools(t, s) {
		for _, how := range []string{"", "with a limit", "multiplexed"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				var wall firewall
				pool := pools(t, s, redis.DialNetDial(wall.dial))[name]
				opts := []redimutex.Option{redimutex.WithTTL(4 * time.Second), redimutex.WithNodeTimeout(1300 * time.Millisecond)} // two in a row are too many
				all := n
				switch how {
				case "with a limit":
					pool.MaxActive = n
				case "multiplexed":
					opts, all = append(opts, redimutex.WithMultiplexing(n)), 2*n
				}
				client := newClient(t, pool, opts...)
				m, other := client.Mutex("k "+t.Name()), client.Mutex("other "+t.Name())
				idle(t, pool, n)
				redistest.Wait(t, "all connections are there", func() bool {
					require.NoError(t, other.LockContext(t.Context(), 10*time.Second))
					require.NoError(t, other.UnlockContext(t.Context()))
					return wall.passed() >= all
				})
				require.NoError(t, m.LockContext(t.Context(), 10*time.Second))
				lease := m.Lease()
				wall.forget()
				redistest.Wait(t, "two renewals", func() bool { return client.Stats().Renewed >= 2 || lease.Err() != nil })
				require.NoError(t, lease.Err())
				if other.TryLockContext(t.Context()) != nil {
					require.NoError(t, other.TryLockContext(t.Context()), "the second try dials")
				}
			})
		}
	}
}

// As behind a firewall that forgot them, idle connections hang in the pool's test until the kernel gives up. Meanwhile most
// tries dial, but some test the pool again: if each lock dialled, the machine would run out of ports.
func TestIdleConnectionsThatHangInTheTestOfThePoolDoNotKeepLocksOut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := s.Pool()
	hang, forgotten, dials, keys := make(chan struct{}), atomic.Int64{}, atomic.Int64{}, atomic.Int64{}
	dial := pool.Dial
	pool.Dial = func() (redis.Conn, error) { dials.Add(1); return dial() }
	pool.TestOnBorrow = func(_ redis.Conn, used time.Time) error {
		if used.UnixNano() < forgotten.Load() {
			<-hang
		}
		return nil
	}
	client := newClient(t, pool, redimutex.WithNodeTimeout(100*time.Millisecond))
	defer close(hang)
	idle(t, pool, 40)
	forgotten.Store(time.Now().UnixNano())
	for range 80 { // at first every second try has no answer
		m := client.Mutex(fmt.Sprint(keys.Add(1)))
		redistest.Wait(t, "a lock", func() bool { return m.TryLockContext(t.Context()) == nil })
	}
	redistest.Wait(t, "locks over the pool", func() bool {
		dialled, locked := dials.Load(), atomic.Int64{}
		var tries sync.WaitGroup
		for range 20 {
			tries.Go(func() {
				if client.Mutex(fmt.Sprint(keys.Add(1))).TryLockContext(t.Context()) == nil {
					locked.Add(1)
				}
			})
		}
		tries.Wait()
		return dials.Load() == dialled && locked.Load() == 20
	})
}

// The operation before had no answer, so this try dials. The server may take no more connections, but the pool has good ones.
func TestATryWhoseDialIsRefusedGoesOverThePool(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := s.Proxy()
	pool := p.Pool()
	dial, down := pool.Dial, atomic.Bool{}
	pool.Dial = func() (redis.Conn, error) {
		if down.Load() {
			return nil, errors.New("no more connections")
		}
		return dial()
	}
	client := newClient(t, pool, redimutex.WithNodeTimeout(2*time.Second))
	idle(t, pool, 8)
	p.Hold()
	require.ErrorIs(t, client.Mutex("k").TryLockContext(t.Context()), redimutex.ErrUnavailable)
	down.Store(true)
	p.Release()
	assert.NoError(t, client.Mutex("k").TryLockContext(t.Context()))
}

// The pool is not one of redigo. It has to be asked again and again, until it has no broken connection left.
func TestARestartFailsNoTryOverAPoolThatCannotDial(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, persistent...)
	inner := pools(t, s)["plain"]
	client := newClient(t, struct{ redimutex.Pool }{inner}, redimutex.WithNodeTimeout(2*time.Second))
	m := client.Mutex("k")
	m.Lock()
	idle(t, inner, 16)
	restart(t, s)
	require.NoError(t, m.UnlockContext(t.Context()))
	s.Pause()
	require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrUnavailable, "that it was silent before makes no difference")
	s.Resume()
	idle(t, inner, 16)
	restart(t, s)
	require.NoError(t, m.TryLockContext(t.Context()))
	require.NoError(t, m.UnlockContext(t.Context()))
}

// A firewall tracks the connections that pass through it, and can forget them. Then nothing passes, and neither end is told.
type firewall struct {
	mu    sync.Mutex
	paths []*path
}

type path struct {
	net.Conn
	forgotten atomic.Bool
}

func (p *path) Write(b []byte) (int, error) {
	if p.forgotten.Load() {
		return len(b), nil
	}
	return p.Conn.Write(b)
}

func (f *firewall) dial(network, addr string) (net.Conn, error) {
	c, err := net.Dial(network, addr)
	if err != nil {
		return nil, err
	}
	p := &path{Conn: c}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths = append(f.paths, p)
	return p, nil
}

// passed returns how many connections have passed so far.
func (f *firewall) passed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.paths)
}

func (f *firewall) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.paths {
		p.forgotten.Store(true)
	}
}

// restart restarts s, and returns when it takes commands again.
func restart(t *testing.T, s *redistest.Server) {
	t.Helper()
	s.Restart()
	redistest.Wait(t, "it has loaded its data", func() bool {
		c, err := redis.Dial("tcp", s.Addr())
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = c.Do("EXISTS", "k")
		return err == nil
	})
}

// idle gives a pool n idle connections.
func idle(t *testing.T, pool *redis.Pool, n int) {
	t.Helper()
	conns := make([]redis.Conn, n)
	for i := range conns {
		conns[i] = pool.Get()
		_, err := conns[i].Do("PING")
		require.NoError(t, err)
	}
	for _, c := range conns {
		c.Close()
	}
	require.GreaterOrEqual(t, pool.IdleCount(), n)
}

// pools returns two kinds of pools for a server.
func pools(t *testing.T, s *redistest.Server, opts ...redis.DialOption) map[string]*redis.Pool {
	ours, err := redimutex.NewPool(s.URL(), opts...)
	require.NoError(t, err)
	plain := &redis.Pool{MaxIdle: 16, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", s.Addr(), opts...) }}
	t.Cleanup(func() {
		ours.Close()
		plain.Close()
	})
	return map[string]*redis.Pool{"NewPool": ours, "plain": plain}
}

// A caller with less time than the node timeout can't tell a slow server from a broken connection.
func TestACallWhoseTimeWasShortCostsNoConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var dials atomic.Int64
	pool := &redis.Pool{MaxIdle: 8, Dial: func() (redis.Conn, error) {
		dials.Add(1)
		return redis.Dial("tcp", s.Addr())
	}}
	t.Cleanup(func() { pool.Close() })
	m := newMutex(t, pool, "k", redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second))
	require.NoError(t, m.LockContext(t.Context(), 0))
	require.NoError(t, m.UnlockContext(t.Context()))
	idle(t, pool, 8)
	before := dials.Load()
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, m.TryLockContext(ctx), context.DeadlineExceeded)
	s.Resume()
	require.NoError(t, m.LockContext(t.Context(), 0))
	require.NoError(t, m.UnlockContext(t.Context()))
	assert.Equal(t, before, dials.Load())
}

// A leaving is a connection to a proxy that accepts while the server is away, and then hangs up.
type leaving struct {
	net.Conn
	away *atomic.Bool
}

func (l leaving) Read(b []byte) (int, error) {
	if l.away.Load() {
		return 0, io.EOF
	}
	return l.Conn.Read(b)
}

// A proxy may accept a connection while the server is away, and then hang up.
func TestAnExtensionOutlivesAServerThatIsAwayForAMoment(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var away atomic.Bool
	var dials atomic.Int64
	pool := redimutex.NewPoolAt("tcp", s.Addr(), redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) == 4 {
			away.Store(false)
		}
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return leaving{c, &away}, err
	}))
	t.Cleanup(func() { pool.Close() })
	m := newMutex(t, pool, "k", redimutex.WithTTL(10*time.Minute), redimutex.WithNodeTimeout(16*time.Second))
	require.NoError(t, m.LockContext(t.Context(), 0))
	away.Store(true)
	require.NoError(t, m.Lease().Extend(t.Context(), 20*time.Minute))
	require.NoError(t, m.UnlockContext(t.Context()))
}
