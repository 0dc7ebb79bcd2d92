package failure_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// refusedAtOnce asserts what every verb must do when the server refuses for good: it fails at once, with the server's words,
// and takes no lock.
func refusedAtOnce(t *testing.T, pool redimutex.Pool, words string) {
	t.Helper()
	m := newMutex(t, pool, "k", redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(20*time.Second))
	for _, err := range []error{
		m.LockContext(t.Context(), 0), m.TryLockContext(t.Context()), m.Do(t.Context(), never(t)), m.TryDo(t.Context(), never(t)),
		locktest.PanicOf(m.Lock),
	} {
		assert.ErrorContains(t, err, words)
		var value *redimutex.NodeError
		require.ErrorAs(t, err, &value)
		assert.Zero(t, value.Node)
		assert.ErrorContains(t, value, words)
		assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
		assert.NotErrorIs(t, err, redimutex.ErrLocked)
	}
	assert.False(t, m.TryLock())
	assert.Nil(t, m.Lease())
}

// waitsOut asserts that Lock and LockContext wait for a reason that passes. They fail with the server's words when their time
// is over, and get the lock after heal was called.
func waitsOut(t *testing.T, pool redimutex.Pool, words string, heal func()) {
	t.Helper()
	client := newClient(t, pool, redimutex.WithTTL(20*time.Second), redimutex.WithNodeTimeout(5*time.Second))
	m := client.Mutex("k")
	// The server may hang up before its words can be read, and a late machine may not ask it at all.
	redistest.Wait(t, "the server's words in the error of TryLockContext", func() bool {
		err := m.TryLockContext(t.Context())
		require.ErrorIs(t, err, redimutex.ErrUnavailable)
		return strings.Contains(err.Error(), words)
	})
	redistest.Wait(t, "the server's words in the error of LockContext", func() bool {
		err := m.LockContext(t.Context(), time.Second) // long enough for at least one whole try
		require.ErrorIs(t, err, redimutex.ErrUnavailable)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, redimutex.ErrLocked)
		var node *redimutex.NodeError
		assert.ErrorAs(t, err, &node)
		// If the server hangs up, the error may be that of the system instead. On a busy machine it mostly is.
		return strings.Contains(err.Error(), words) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	})
	locked := make(chan struct{})
	go func() {
		defer close(locked)
		m.Lock()
	}()
	failed := client.Stats().Errors[0]
	redistest.Wait(t, "two more tries", func() bool { return client.Stats().Errors[0] >= failed+2 })
	assert.False(t, locktest.Ended(locked))
	heal()
	<-locked
	assert.NoError(t, m.UnlockContext(t.Context()))
}

func TestWrongTypeIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("LPUSH", "k", "not a lock")
	refusedAtOnce(t, s.Pool(), "WRONGTYPE")
	assert.Equal(t, "list", fmt.Sprint(s.Do("TYPE", "k")), "and it is left alone")
}

func TestATryWhoseConnectionHasBrokenTellsWhyItGetsNoOther(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := s.Pool()
	dial, refuses := pool.Dial, new(atomic.Bool)
	pool.Dial = func() (redis.Conn, error) {
		if refuses.Load() {
			return nil, redis.Error("WRONGPASS invalid username-password pair or user is disabled.")
		}
		return dial()
	}
	m := newMutex(t, pool, "k", redimutex.WithNodeTimeout(20*time.Second), redimutex.WithTTL(time.Hour))
	m.Lock()
	m.Unlock()
	refuses.Store(true) // as after an operator has changed the password, which ends all connections
	s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	err := m.TryLockContext(t.Context())
	assert.ErrorContains(t, err, "WRONGPASS")
	assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
}

func TestLockWaitsForAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Kill()
	waitsOut(t, s.Pool(), "connect", s.Restart)
}

func TestLockWaitsForAFullServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("CONFIG", "SET", "maxmemory", "1")
	waitsOut(t, s.Pool(), "OOM", func() { s.Do("CONFIG", "SET", "maxmemory", "0") })
}

func TestLockWaitsForAReadOnlyReplicaToBePromoted(t *testing.T) {
	t.Parallel()
	_, replicas := redistest.Replicas(t, 1)
	s := replicas[0]
	waitsOut(t, s.Pool(), "READONLY", func() { s.Do("REPLICAOF", "NO", "ONE") })
}

func TestLockWaitsForAServerThatLacksReplicas(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.MinReplicas)
	s := redistest.Real(t, "--min-replicas-to-write", "1")
	waitsOut(t, s.Pool(), "NOREPLICAS", func() { s.Do("CONFIG", "SET", "min-replicas-to-write", "0") })
}

func TestLockWaitsForAServerThatIsBusyWithAScript(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, "--lua-time-limit", "1")
	pool := s.Pool()
	m := newMutex(t, pool, "warm")
	m.Lock() // the server's clock is known now, and stays known
	m.Unlock()
	c := s.Pool().Get()
	defer c.Close()
	require.NoError(t, c.Send("EVAL", "while true do end", 0))
	require.NoError(t, c.Flush())
	redistest.Wait(t, "the server to be busy", func() bool {
		c := pool.Get()
		defer c.Close()
		_, err := c.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	})
	waitsOut(t, pool, "BUSY", func() { s.Do("SCRIPT", "KILL") })
}

func TestLockWaitsForAConnectionOfAnExhaustedPool(t *testing.T) {
	t.Parallel()
	pool := redistest.Start(t).Pool()
	pool.MaxActive = 1
	c := pool.Get()
	_, err := c.Do("PING")
	require.NoError(t, err)
	waitsOut(t, pool, "pool exhausted", func() { c.Close() })
}

// All connections of the pool are in use for a while, and the server takes no more. It refuses the SELECT of a dial. Without a
// SELECT, it refuses the first command.
func TestARenewalGoesOnOverThePoolOfAServerWithTooManyClients(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "has no maxclients")
	for database := range 2 {
		s := redistest.Start(t)
		pool := s.Pool(redis.DialDatabase(database))
		pool.MaxActive, pool.Wait = 2, true
		m := newMutex(t, pool, "k", redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(4*time.Second))
		require.NoError(t, m.LockContext(t.Context(), 0))
		users := []redis.Conn{pool.Get(), pool.Get()}
		_, err := users[0].Do("PING")
		require.NoError(t, err)
		_, err = users[1].Do("CONFIG", "SET", "maxclients", "2")
		require.NoError(t, err)
		time.AfterFunc(2*time.Second, func() { users[0].Close() }) // later than a quarter of the node timeout
		assert.NoError(t, m.Lease().Extend(t.Context(), time.Hour))
		require.NoError(t, m.UnlockContext(t.Context()))
		require.NoError(t, users[1].Close())
	}
}

func TestLockWaitsForAServerWithTooManyClients(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "has no maxclients")
	s := redistest.Start(t)
	admin := s.Pool().Get()
	defer admin.Close()
	_, err := admin.Do("CONFIG", "SET", "maxclients", "1")
	require.NoError(t, err)
	waitsOut(t, s.Pool(), "max number of clients", func() {
		_, err := admin.Do("CONFIG", "SET", "maxclients", "1000")
		require.NoError(t, err)
	})
}
