package lease_test

import (
	"context"
	"fmt"
	"slices"
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

// The release can't be sent. The key may then live for as long as an Extend has asked for.
func TestAReleaseThatFailedIsRepeatedForAsLongAsTheKeyMayLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, real := redistest.Virtual(t)
		pool := redistest.NewBetween(real)
		m := newClient(t, pool, redimutex.WithTTL(time.Second)).Mutex("k")
		m.Lock()
		require.NoError(t, m.Lease().Extend(t.Context(), time.Minute))
		pool.Set(redistest.Cut)
		assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrUnavailable)
		time.Sleep(20 * time.Second)
		require.True(t, server.Exists("k"))
		pool.Set(nil)
		time.Sleep(5 * time.Second)
		assert.False(t, server.Exists("k"), "it has no owner, and it would live for another %v", server.TTL("k"))
	})
}

// After Close, nothing runs in the background that could go on with a release that was cut short.
func TestUnlockAfterCloseDeletesTheKeyAlsoWhereItsContextEndsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, real := redistest.Virtual(t)
		far := slowGet{real}
		c := newClient(t, far, redimutex.WithNodeTimeout(time.Second))
		m := c.Mutex("k")
		m.Lock()
		require.NoError(t, c.Close())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, m.UnlockContext(ctx), redimutex.ErrClosed)
		assert.False(t, server.Exists("k"), "it has no owner, and it would live for another %v", server.TTL("k"))
	})
}

// The release takes most of a node timeout, because the server is far.
func TestCloseWaitsForTheReleaseOfAFarServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, real := redistest.Virtual(t)
		pool := redistest.NewBetween(real)
		c := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithNodeTimeout(250*time.Millisecond))
		m := c.Mutex("k")
		m.Lock()
		m.Unlock() // now the server knows the scripts
		m.Lock()
		var releases atomic.Int32
		pool.Set(func(command redistest.Command) (any, error) {
			releases.Add(1)
			time.Sleep(100 * time.Millisecond)
			defer time.Sleep(100 * time.Millisecond)
			return command.Run()
		})
		unlocked := make(chan error, 1)
		go func() { unlocked <- m.UnlockContext(t.Context()) }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, c.Close())
		assert.InDelta(t, 200*time.Millisecond, time.Since(began), float64(10*time.Millisecond))
		synctest.Wait()
		assert.Len(t, unlocked, 1)
		require.NoError(t, <-unlocked)
		assert.False(t, server.Exists("k"))
		assert.EqualValues(t, 1, releases.Load())
	})
}

// A slowGet is a pool that takes a while to give a connection.
type slowGet struct{ redimutex.Pool }

func (p slowGet) Get() redis.Conn {
	time.Sleep(100 * time.Millisecond)
	return p.Pool.Get()
}

// An extension that was given up must not prolong a lock that was left to expire. It may still be under way in this process
// or, over a pool that keeps deadlines, on the network alone.
func TestLateExtensionDoesNotProlongWhatUnlockHasLeftToExpire(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := s.Proxy()
	for name, pool := range map[string]redimutex.Pool{"plain": p.Pool(), "NewPool": newPool(t, p.URL())} {
		c := newClient(t, pool, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(2*time.Second))
		m := c.Mutex(name, redimutex.WithMinHold(time.Second))
		require.NoError(t, m.LockContext(t.Context(), 0))
		l := m.Lease()
		require.NoError(t, l.Extend(t.Context(), time.Hour)) // now the server knows the script
		packet, ok := lateExtension(t, p, l, time.Hour)
		require.True(t, ok)
		require.NoError(t, m.UnlockContext(t.Context()))
		packet.Release()
		redistest.Wait(t, "the lock has expired", func() bool { return !s.Exists(name) })
	}
}

// The extension and the release have a connection each, and the answer to the release comes last.
func TestAnExtensionThatOvertakesTheReleaseDoesNotProlongWhatUnlockHasLeftToExpire(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := s.Proxy()
	c := newClient(t, newPool(t, p.URL()), redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(2*time.Second))
	warm(t, c.Mutex("other", redimutex.WithMinHold(time.Minute)))
	m := c.Mutex("key", redimutex.WithMinHold(time.Minute))
	require.NoError(t, m.LockContext(t.Context(), 0))
	l := m.Lease()
	extension := p.Catch("EVALSHA")
	var calls sync.WaitGroup
	calls.Go(func() { l.Extend(t.Context(), time.Hour) }) //nolint:errcheck // it may be too late
	redistest.Receive(t, "the extension", extension.Arrived())
	release := p.Catch("EVALSHA")
	calls.Go(func() { assert.NoError(t, m.UnlockContext(t.Context())) }) // it waits for the extension for half of its time
	redistest.Receive(t, "the release", release.Arrived())
	var replies atomic.Int32
	p.Treat(func(reply bool) (how redistest.Treatment) {
		if reply && replies.Add(1) == 1 {
			how.Delay = 500 * time.Millisecond
		}
		return how
	})
	release.Release()
	redistest.Wait(t, "the release was executed", func() bool { return s.PTTL("key") <= time.Minute })
	extension.Release()
	calls.Wait()
	redistest.Wait(t, "the lock expires", func() bool { return s.PTTL("key") <= time.Minute })
}

func TestUnlockOfAnExpiredLeaseWaitsForNoServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, bare := redistest.Virtual(t)
		pool := redistest.NewBetween(bare)
		m := newClient(t, pool, redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(3*time.Second)).Mutex("k")
		m.Lock()
		let := pool.Hold()
		<-m.Lease().Done()
		began := time.Now()
		assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
		assert.Zero(t, time.Since(began))
		pool.Set(nil)
		let()
	})
}

// Holds of these options end in different ways on the servers.
func TestUnlockTellsThatTheKeyWasReplacedByOneOfAnotherType(t *testing.T) {
	t.Parallel()
	for kind, opts := range map[string][]redimutex.Option{
		"plain":    nil,
		"queue":    {redimutex.WithQueue()},
		"fencing":  {redimutex.WithFencing()},
		"min hold": {redimutex.WithMinHold(time.Minute)},
	} {
		for _, count := range []int{1, 3} {
			if kind == "queue" && count > 1 {
				continue // only one server can have a queue
			}
			t.Run(fmt.Sprintf("%s, %d servers", kind, count), func(t *testing.T) {
				t.Parallel()
				servers := locktest.Start(t, count)
				opts := append(slices.Clip(opts), redimutex.WithNodeTimeout(5*time.Second)) // more than a slow machine needs
				m := servers.Client(t, opts...).Mutex("k")
				require.NoError(t, m.LockContext(t.Context(), time.Minute))
				for _, s := range servers {
					// When Lock returned, a majority had the lock. The last server may get it only now.
					redistest.Wait(t, "every server has the lock", func() bool { return s.Get("k") != "" })
					s.Do("DEL", "k")
					s.Do("HSET", "k", "field", "value")
				}
				var lost *redimutex.LostError
				require.ErrorAs(t, m.UnlockContext(t.Context()), &lost)
				assert.Equal(t, redimutex.Taken, lost.Reason)
				for _, s := range servers {
					assert.EqualValues(t, 1, s.Do("HLEN", "k"), "what is not ours is left alone")
				}
			})
		}
	}
}

// The next lock of the process waits for that release.
func TestALockBehindAReleaseWithoutAnAnswerSaysWhyThereIsNone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, s.Pool(), redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(200*time.Millisecond))
	m := client.Mutex("k")
	m.Lock()
	s.Kill()
	require.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrUnavailable)
	redistest.Wait(t, "the reason", func() bool {
		err := client.Mutex("k").TryLockContext(t.Context())
		require.ErrorIs(t, err, redimutex.ErrUnavailable)
		return strings.Contains(err.Error(), "no answer to the release before") && strings.Contains(err.Error(), "refused")
	})
}
