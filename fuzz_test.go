package redimutex_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
)

// embedded starts a server in this process: any other would be too slow for fuzzing.
func embedded(f *testing.F) (*miniredis.Miniredis, *redis.Pool) {
	m := miniredis.NewMiniRedis()
	require.NoError(f, m.Start())
	addr := m.Addr() // after Close, m has no address, and a clean-up may still dial
	p := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	f.Cleanup(func() {
		p.Close()
		m.Close()
	})
	return m, p
}

// A key may contain any bytes. It names one lock, which excludes a rival. No other key shares its fence or its queue.
func FuzzKey(f *testing.F) {
	m, pool := embedded(f)
	for _, key := range locktest.OddKeys[:len(locktest.OddKeys)-1] {
		f.Add(key, false)
		f.Add(key, true)
	}
	f.Fuzz(func(t *testing.T, key string, queue bool) {
		if key == "" {
			t.Skip("an empty key is a programming error")
		}
		m.FlushAll()
		opts := []redimutex.Option{redimutex.WithTTL(time.Hour), redimutex.WithFencing()}
		if queue {
			opts = append(opts, redimutex.WithQueue())
		}
		c := redimutex.NewClient([]redimutex.Pool{pool}, opts...)
		defer c.Close()
		rival := redimutex.NewClient([]redimutex.Pool{pool}, opts...)
		defer rival.Close()
		mutex := c.Mutex(key)
		require.NoError(t, mutex.TryLockContext(t.Context()))
		token, err := m.Get(key)
		require.NoError(t, err)
		require.Equal(t, mutex.Lease().Token(), token)
		require.Len(t, m.Keys(), 2, "the lock and its fence")
		fence := mutex.Lease().Fence()
		require.ErrorIs(t, rival.Mutex(key).TryLockContext(t.Context()), redimutex.ErrLocked)
		require.NoError(t, mutex.UnlockContext(t.Context()))
		require.False(t, m.Exists(key))
		other := rival.Mutex(key)
		require.NoError(t, other.TryLockContext(t.Context()))
		require.Greater(t, other.Lease().Fence(), fence)
		require.NoError(t, other.UnlockContext(t.Context()))
		require.Len(t, m.Keys(), 1, "the fence")
	})
}

// Options either panic with one of our own messages, or give a Mutex. That Mutex works, or its error says why it does not.
func FuzzOptions(f *testing.F) {
	m, pool := embedded(f)
	f.Add(int64(10*time.Second), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), 0, 0, "owner", uint8(0))
	f.Add(int64(time.Second), int64(time.Millisecond), int64(time.Millisecond), int64(time.Second), int64(time.Millisecond),
		int64(0), int64(0), 3, 0, "", uint8(0xff))
	f.Add(int64(time.Minute), int64(0), int64(0), int64(0), int64(0), int64(time.Second), int64(time.Millisecond), -1, 1, "\n", uint8(1))
	f.Add(int64(1<<63-1), int64(1), int64(1<<62), int64(1<<63-1), int64(1<<63-1), int64(-1), int64(1<<62), math.MaxInt, math.MaxInt, "\xff", uint8(2))
	f.Fuzz(func(t *testing.T, ttl, poll, node, maxHold, minHold, reuse, replicaWait int64, attempts, replicas int, owner string, flags uint8) {
		m.FlushAll()
		var opts []redimutex.Option
		refused := refusal(t, func() {
			opts = fuzzedOptions(ttl, poll, node, maxHold, minHold, reuse, replicaWait, attempts, replicas, owner, flags)
			redimutex.New(pool, "k", opts...)
		})
		if refused {
			return
		}
		c := redimutex.NewClient([]redimutex.Pool{pool}, opts...)
		defer c.Close()
		mutex := c.Mutex("k")
		if err := mutex.TryLockContext(t.Context()); err != nil {
			return // the options may ask for replicas that do not exist, or for an answer within a nanosecond
		}
		if l := mutex.Lease(); l != nil && l.Err() == nil {
			require.True(t, l.Until().After(time.Now().Add(-time.Minute)), "a lease without validity")
		}
		_ = mutex.UnlockContext(t.Context()) // the lease may be over, or the release take longer than a nanosecond
	})
}

// refusal reports whether f panics. The panic has to be a sentence of this library.
func refusal(t *testing.T, f func()) (refused bool) {
	defer func() {
		if v := recover(); v != nil {
			refused = true
			sentence := fmt.Sprint(v)
			require.True(t, strings.HasPrefix(sentence, "redimutex: ") || strings.HasPrefix(sentence, "With"), sentence)
			require.Greater(t, len(strings.Fields(sentence)), 3, sentence)
		}
	}()
	f()
	return false
}

func fuzzedOptions(ttl, poll, node, maxHold, minHold, reuse, replicaWait int64, attempts, replicas int, owner string, flags uint8) []redimutex.Option {
	opts := []redimutex.Option{redimutex.WithTTL(time.Duration(ttl)), redimutex.WithOwner(owner)}
	add := func(given bool, option func() redimutex.Option) {
		if given {
			opts = append(opts, option())
		}
	}
	add(poll != 0, func() redimutex.Option { return redimutex.WithPollInterval(time.Duration(poll)) })
	add(node != 0, func() redimutex.Option { return redimutex.WithNodeTimeout(time.Duration(node)) })
	add(maxHold != 0, func() redimutex.Option { return redimutex.WithMaxHold(time.Duration(maxHold)) })
	add(minHold != 0, func() redimutex.Option { return redimutex.WithMinHold(time.Duration(minHold)) })
	add(reuse != 0, func() redimutex.Option { return redimutex.WithLeaseReuse(time.Duration(reuse)) })
	add(attempts != 0, func() redimutex.Option { return redimutex.WithMaxAttempts(attempts) })
	add(replicas != 0, func() redimutex.Option { return redimutex.WithReplicas(replicas, time.Duration(replicaWait)) })
	add(flags&1 != 0, redimutex.WithoutRenewal)
	add(flags&2 != 0, redimutex.WithFencing)
	add(flags&4 != 0, redimutex.WithQueue)
	add(flags&8 != 0, redimutex.WithReentrancy)
	add(flags&16 != 0, redimutex.WithRestartGuard)
	add(flags&32 != 0, func() redimutex.Option {
		return redimutex.WithBackoff(redimutex.Jittered(redimutex.Linear(time.Duration(poll))))
	})
	add(flags&64 != 0, func() redimutex.Option {
		return redimutex.WithBackoff(redimutex.Exponential(time.Duration(poll), time.Duration(node)))
	})
	return opts
}
