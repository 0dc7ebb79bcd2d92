package failure_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A hiding pool hides the methods of the pool inside it. A showing one exports them.
type (
	hiding  struct{ pool *redis.Pool }
	showing struct{ *redis.Pool }
)

func (h hiding) Get() redis.Conn { return h.pool.Get() }

func TestWaitersInTheQueueLeaveTheConnectionsOfAPoolToOperations(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, wrap := range map[string]func(*redis.Pool) redimutex.Pool{
		"hiding":  func(p *redis.Pool) redimutex.Pool { return hiding{p} },
		"showing": func(p *redis.Pool) redimutex.Pool { return showing{p} },
		"itself":  func(p *redis.Pool) redimutex.Pool { return p },
	} {
		inner := s.Pool()
		inner.MaxActive, inner.Wait = 4, true
		var group sync.WaitGroup
		for range 6 { // each with a Client of its own, as in a process of its own
			m := newClient(t, wrap(inner), redimutex.WithQueue(), redimutex.WithNodeTimeout(5*time.Second)).Mutex(name)
			group.Go(func() {
				assert.NoError(t, m.LockContext(t.Context(), time.Minute))
				time.Sleep(10 * time.Millisecond)
				assert.NoError(t, m.UnlockContext(t.Context()))
			})
		}
		group.Wait()
	}
}

// redigo panics if such a pool is closed while a caller waits for a connection of it.
func TestAPoolThatIsClosedInsideAnotherEndsNoProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for range 50 {
		inner := s.Pool()
		inner.MaxActive, inner.Wait = 1, true
		client := newClient(t, showing{inner}, redimutex.WithNodeTimeout(5*time.Millisecond))
		require.NoError(t, client.Mutex("k").LockContext(t.Context(), 10*time.Second))
		c := inner.Get()
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() { client.Mutex("other").TryLockContext(t.Context()) }) //nolint:errcheck // it can't
		}
		time.Sleep(4 * time.Millisecond)
		c.Close()
		s.Do("DEL", "k")
		group.Wait()
	}
}

// The panic happens on a goroutine that no caller can guard.
func TestAPoolThatPanicsIsAnErrorOfTheCall(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var works atomic.Bool
	dial := func() (redis.Conn, error) {
		if !works.Load() {
			panic("no idea where it is")
		}
		return redis.Dial("tcp", s.Addr())
	}
	ours := redimutex.NewPoolAt("tcp", s.Addr(), redis.DialNetDial(func(network, addr string) (net.Conn, error) {
		if !works.Load() {
			panic("no idea where it is")
		}
		return net.Dial(network, addr)
	}))
	ours.MaxIdle = 0
	tested := s.Pool()
	tested.TestOnBorrow = func(redis.Conn, time.Time) error {
		if !works.Load() {
			panic("no idea where it is")
		}
		return nil
	}
	idle(t, tested, 1)
	for name, pool := range map[string]redimutex.Pool{
		"plain": &redis.Pool{Dial: dial}, "ours": ours, "tested": tested, "hiding": hiding{&redis.Pool{Dial: dial}}, "no connection": nothing{},
		"no connection dialled": &redis.Pool{Dial: dialNothing}, "its connection": panicking{s.Pool(), &works},
	} {
		for _, how := range [][]redimutex.Option{nil, {redimutex.WithMultiplexing(1)}, {redimutex.WithQueue()}} {
			if _, dials := pool.(*redis.Pool); !dials && len(how) > 0 {
				continue
			}
			works.Store(false)
			m := newClient(t, pool, how...).Mutex(name)
			if name != "tested" || how == nil {
				require.ErrorContains(t, m.TryLockContext(t.Context()), "panicked", name)
			}
			works.Store(true)
			if !strings.HasPrefix(name, "no connection") {
				require.NoError(t, m.LockContext(t.Context(), 10*time.Second), name)
				require.NoError(t, m.UnlockContext(t.Context()), name)
			}
		}
	}
}

// The unread reply of a command that panicked would be taken for the reply to the next command.
func TestAPoolKeepsNoConnectionThatHasPanicked(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "held", "another holder")
	var panics atomic.Bool
	pool := &redis.Pool{MaxIdle: 1, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", s.Addr(), redis.DialNetDial(func(network, addr string) (net.Conn, error) {
			c, err := net.Dial(network, addr)
			return panickingReader{c, &panics}, err
		}))
	}}
	t.Cleanup(func() { pool.Close() })
	client := newClient(t, pool, redimutex.WithNodeTimeout(5*time.Second))
	m := client.Mutex("free")
	require.NoError(t, m.LockContext(t.Context(), 10*time.Second))
	require.NoError(t, m.UnlockContext(t.Context()))
	panics.Store(true)
	require.ErrorContains(t, m.TryLockContext(t.Context()), "panicked")
	for range 10 {
		require.ErrorIs(t, client.Mutex("held").TryLockContext(t.Context()), redimutex.ErrLocked)
	}
}

// Other code may leave a connection without its login (RESET) or subscribed (SSUBSCRIBE). The pool would hand it out again and
// again, and each renewal over it would be refused.
func TestAPoolKeepsNoConnectionOverWhichTheServerRefusesEveryCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, "--requirepass", "secret")
	for name, spoil := range map[string]func(redis.Conn){
		"without its login": func(redis.Conn) {},
		"subscribed":        func(c redis.Conn) { _, _ = c.Do("AUTH", "secret"); _, _ = c.Do("SUBSCRIBE", "channel") },
	} {
		const many = 20
		spoils := 1
		pool := &redis.Pool{MaxIdle: 2 * many, Dial: func() (redis.Conn, error) {
			c, err := redis.Dial("tcp", s.Addr())
			if err == nil && spoils == 0 {
				_, err = c.Do("AUTH", "secret")
			} else if err == nil {
				spoil(c)
				spoils--
			}
			return c, err
		}}
		t.Cleanup(func() { pool.Close() })
		m := newClient(t, pool, redimutex.WithNodeTimeout(5*time.Second)).Mutex(name)
		require.Error(t, m.TryLockContext(t.Context()), name)
		require.NoError(t, m.TryLockContext(t.Context()), name)

		spoils = many
		var idle []redis.Conn
		for range many + 1 { // one is in the pool
			idle = append(idle, pool.Get())
		}
		for _, c := range idle {
			c.Close()
		}
		require.NoError(t, m.Lease().Extend(t.Context(), 10*time.Minute), "%s: a renewal goes on over a fresh connection", name)
	}
}

// A panickingReader is a network connection whose Read panics once, after panics was set.
type panickingReader struct {
	net.Conn
	panics *atomic.Bool
}

func (c panickingReader) Read(b []byte) (int, error) {
	if c.panics.Swap(false) {
		panic("no idea what that is")
	}
	return c.Conn.Read(b)
}

// A panicking is a pool whose connections panic when they run a command, until works is set.
type panicking struct {
	redimutex.Pool
	works *atomic.Bool
}

func (p panicking) Get() redis.Conn { return panickingConn{p.Pool.Get(), p.works} }

type panickingConn struct {
	redis.Conn
	works *atomic.Bool
}

func (c panickingConn) Do(command string, args ...any) (any, error) {
	if command != "" && !c.works.Load() {
		panic("no idea what that is")
	}
	return c.Conn.Do(command, args...)
}

func (c panickingConn) Send(command string, args ...any) error {
	if !c.works.Load() {
		panic("no idea what that is")
	}
	return c.Conn.Send(command, args...)
}

// A nothing is a pool whose connections are nil.
type nothing struct{}

func (nothing) Get() redis.Conn { return nil }

func dialNothing() (redis.Conn, error) { return nil, nil }

// A mute pool works, but the connection of its subscription does not.
type mute struct {
	hiding
	dialled chan struct{} // gets a message at the first dial
}

func (m mute) Dial() (redis.Conn, error) {
	select {
	case m.dialled <- struct{}{}:
	default:
	}
	return dialNothing()
}

func TestAPoolThatDialsNothingLeavesWaitersToPoll(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := newMutex(t, s.Pool(), "k", redimutex.WithQueue())
	holder.Lock()
	pool := mute{hiding{s.Pool()}, make(chan struct{}, 1)}
	waiter := newMutex(t, pool, "k", redimutex.WithQueue())
	got := make(chan error, 1)
	go func() { got <- waiter.LockContext(t.Context(), time.Minute) }()
	<-pool.dialled
	holder.Unlock()
	require.NoError(t, <-got)
	require.NoError(t, waiter.UnlockContext(t.Context()))
}

// A doOnly has only Do, Close and Err, as redisc's RetryConn.
type doOnly struct{ redis.Conn }

var errUnsupported = errors.New("unsupported call")

func (doOnly) Send(string, ...any) error { return errUnsupported }
func (doOnly) Flush() error              { return errUnsupported }
func (doOnly) Receive() (any, error)     { return nil, errUnsupported }

type doOnlyPool struct{ pool *redis.Pool }

func (p doOnlyPool) Get() redis.Conn { return doOnly{p.pool.Get()} }

func TestLeasesAreRenewedOverConnectionsThatCannotSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		client := newClient(t, doOnlyPool{pool}, redimutex.WithTTL(time.Second))
		mutexes := make([]*redimutex.Mutex, 5)
		for i := range mutexes {
			mutexes[i] = client.Mutex(string(rune('a' + i)))
			mutexes[i].Lock()
		}
		time.Sleep(4 * time.Second)
		assert.GreaterOrEqual(t, client.Stats().Renewed, int64(10))
		for _, m := range mutexes {
			require.NoError(t, m.Lease().Err())
			require.NoError(t, m.UnlockContext(t.Context()))
		}
		require.NoError(t, mutexes[0].LockContext(t.Context(), 10*time.Second), "the first try is no plain SET")
		require.NoError(t, mutexes[0].UnlockContext(t.Context()))
		require.NoError(t, client.Close())
	})
}

// A dialler is a pool that can dial, but not one of redigo.
type dialler struct{ redimutex.Pool }

func (d dialler) Dial() (redis.Conn, error) { return d.Get(), nil }

// A cluster has the methods by which a pool of redisc is recognized.
type cluster struct{ redimutex.Pool }

func (cluster) EachNode(bool, func(string, redis.Conn) error) error { return nil }
func (cluster) Dial() (redis.Conn, error)                           { return nil, nil }

func TestWhatAPoolCannotDoPanics(t *testing.T) {
	t.Parallel()
	pool := redistest.Start(t).Pool()
	replicas := redimutex.WithReplicas(1, time.Second)
	two := redimutex.WithMultiplexing(2)
	for text, f := range map[string]func(){
		"WithMultiplexing(0): has to be from 1": func() { redimutex.New(pool, "k", redimutex.WithMultiplexing(0)) },
		"not with WithReplicas":                 func() { redimutex.New(pool, "k", replicas, two) },
		"not with WithReplicas, ":               func() { newClient(t, pool, two).Mutex("k", replicas) },
		"is an option of NewClient":             func() { newClient(t, pool).Mutex("k", two) },
		"is an option of NewClient, ":           func() { newClient(t, pool, two).Mutex("k", redimutex.WithMultiplexing(3)) },
		"a cluster has":                         func() { redimutex.New(cluster{pool}, "k", two) },
		"can't dial":                            func() { redimutex.New(struct{ redimutex.Pool }{pool}, "k", two) },
		"can't dial a connection":               func() { redimutex.New(struct{ *redis.Pool }{pool}, "k", two) },
		"WithRestartGuard: one key can":         func() { redimutex.New(cluster{pool}, "k", redimutex.WithRestartGuard()) },
	} {
		assert.ErrorContains(t, locktest.PanicOf(f), text)
	}
	assert.NotPanics(t, func() { redimutex.New(dialler{pool}, "k", two) })
}

func TestMultiplexedLeasesAreRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		client := newClient(t, pool, redimutex.WithMultiplexing(1), redimutex.WithTTL(time.Second))
		mutexes := make([]*redimutex.Mutex, 50)
		for i := range mutexes {
			mutexes[i] = client.Mutex(strconv.Itoa(i))
			mutexes[i].Lock()
		}
		time.Sleep(4 * time.Second)
		require.Zero(t, pool.ActiveCount(), "connections of the pool are left to its other users")
		for i, m := range mutexes {
			require.NoError(t, m.Lease().Err())
			require.True(t, server.Exists(strconv.Itoa(i)))
			m.Unlock()
		}
		require.Empty(t, server.Keys())
		require.NoError(t, client.Close())
	})
}

func TestUnlockWorksAfterTheConnectionsWereClosed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithMultiplexing(2), redimutex.WithTTL(time.Minute))
	m := client.Mutex("k")
	m.Lock()
	require.NoError(t, client.Close())
	require.NotEmpty(t, s.Get("k"))
	require.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
	assert.Empty(t, s.Keys())
}

func TestALockWhosePoolWasClosedIsReleasedAllTheSame(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := s.Pool()
	m := newClient(t, pool, redimutex.WithTTL(time.Hour)).Mutex("k")
	m.Lock()
	require.NoError(t, pool.Close())
	assert.ErrorContains(t, m.UnlockContext(t.Context()), "the pool was closed")
	redistest.Wait(t, "the lock is released in the background", func() bool { return len(s.Keys()) == 0 })
}

// A closed pool stays closed, so it is useless to wait.
func TestAClosedPoolEndsWaitsAtOnce(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	var pools []redimutex.Pool
	for _, s := range servers {
		pools = append(pools, s.Pool())
	}
	servers[0].Do("SET", "k", "another holder", "PX", time.Hour.Milliseconds())
	single := redimutex.NewClient(pools[:1])
	t.Cleanup(func() { single.Close() })
	ended := make(chan error, 1)
	go func() { ended <- single.Mutex("k").LockContext(context.Background(), 0) }()
	locktest.WaitInLine(t, single, 1)
	require.NoError(t, pools[0].(*redis.Pool).Close())
	err := redistest.Receive(t, "the end of the wait", ended)
	var node *redimutex.NodeError
	require.ErrorAs(t, err, &node)
	assert.ErrorContains(t, err, "the pool was closed")
	assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
	assert.Panics(t, single.Mutex("k").Lock)

	three := redimutex.NewClient(pools, redimutex.WithTTL(time.Minute))
	t.Cleanup(func() { three.Close() })
	m := three.Mutex("other")
	require.NoError(t, m.LockContext(t.Context(), time.Minute), "two of three are a majority")
	require.NoError(t, m.UnlockContext(t.Context()))
}
