package lease_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// fence locks and unlocks m and returns the fence of the hold.
func fence(t testing.TB, m *redimutex.Mutex) int64 {
	t.Helper()
	require.NoError(t, m.LockContext(t.Context(), time.Minute))
	f := m.Lease().Fence()
	require.NoError(t, m.UnlockContext(t.Context()))
	return f
}

// siblings returns the keys of a server other than the locks.
func siblings(t testing.TB, s *redistest.Server, locks ...string) []string {
	t.Helper()
	return slices.DeleteFunc(s.Keys(), func(key string) bool { return slices.Contains(locks, key) })
}

func TestFenceIsZeroWithoutFencing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	assert.Zero(t, fence(t, m))
	assert.Empty(t, s.Keys(), "nor is anything kept")
}

func TestFencesRiseStrictlyOverClients(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := locktest.Start(t, n)
			var mu sync.Mutex
			var fences []int64
			var group sync.WaitGroup
			for range 4 {
				m := c.Client(t, redimutex.WithFencing(), redimutex.WithPollInterval(2*time.Millisecond), redimutex.WithTTL(30*time.Second)).Mutex("k")
				group.Go(func() {
					for range 10 {
						m.Lock()
						mu.Lock()
						fences = append(fences, m.Lease().Fence())
						mu.Unlock()
						m.Unlock()
					}
				})
			}
			group.Wait()
			assert.Len(t, fences, 40)
			assert.Positive(t, fences[0])
			for i := 1; i < len(fences); i++ {
				assert.Greater(t, fences[i], fences[i-1])
			}
		})
	}
}

// If the server's clock is ahead of the last fence, the next fence is the clock. So the counter may vanish.
func TestFencesRiseWhenTheirCounterIsGone(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := locktest.Start(t, n)
			m := c.Client(t, redimutex.WithFencing(), redimutex.WithTTL(30*time.Second)).Mutex("k")
			last := fence(t, m)
			for _, what := range []struct {
				name string
				do   func(*redistest.Server)
			}{
				{"the counter was deleted", func(s *redistest.Server) {
					for _, key := range siblings(t, s, "k") {
						s.Do("DEL", key)
					}
				}},
				{"the counter has expired", func(s *redistest.Server) {
					for _, key := range siblings(t, s, "k") {
						redistest.Wait(t, "the expiry", func() bool {
							s.Do("PEXPIRE", key, 1) // repeated, because the last fence may still be written back
							return !s.Exists(key)
						})
					}
				}},
				{"FLUSHALL", func(s *redistest.Server) { s.Do("FLUSHALL") }},
				{"SCRIPT FLUSH", func(s *redistest.Server) { s.Do("SCRIPT", "FLUSH") }},
			} {
				for _, s := range c {
					what.do(s)
				}
				next := fence(t, m)
				assert.Greater(t, next, last, what.name)
				last = next
			}
		})
	}
}

// If the clock was set back, or is that of another server, only the counter makes fences rise.
func TestFencesRiseWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	addr := m.Addr() // after Close, m has no address, and a clean-up may still dial
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	t.Cleanup(func() { pool.Close() })
	mu := newMutex(t, pool, "k", redimutex.WithFencing(), redimutex.WithNodeTimeout(4*time.Second)) // a slow machine is no failure
	now := time.Now()
	last := int64(0)
	for _, back := range []time.Duration{0, time.Minute, time.Hour, 24 * time.Hour} {
		m.SetTime(now.Add(-back))
		for range 3 {
			next := fence(t, mu)
			assert.Greater(t, next, last)
			last = next
		}
	}
	assert.GreaterOrEqual(t, last, now.UnixMicro(), "it begins with the clock, in µs")
}

// The counter expires an hour after its last use by any process. Each lock, write-back and renewal starts the hour anew.
func TestUseKeepsTheFenceCounter(t *testing.T) {
	t.Parallel()
	c := locktest.Start(t, 3)
	m := c.Client(t, redimutex.WithFencing(), redimutex.WithTTL(time.Minute)).Mutex("k")
	_ = fence(t, m)
	for _, s := range c {
		redistest.Wait(t, "the counter", func() bool { return len(siblings(t, s, "k")) == 1 })
		s.Do("PEXPIRE", siblings(t, s, "k")[0], 60_000)
	}
	long := func(s *redistest.Server) bool { return s.PTTL(siblings(t, s, "k")[0]) > 30*time.Minute }
	all := func() bool { return !slices.ContainsFunc(c, func(s *redistest.Server) bool { return !long(s) }) }
	redistest.Wait(t, "the TTL of the counters: one that is slow for a moment is not asked", func() bool {
		_ = fence(t, m)
		return all()
	})
	m.Lock()
	for _, s := range c {
		redistest.Wait(t, "the lock", func() bool { return len(s.Keys()) == 2 })
		s.Do("PEXPIRE", siblings(t, s, "k")[0], 60_000)
	}
	require.NoError(t, m.Lease().Extend(t.Context(), time.Minute))
	redistest.Wait(t, "the TTL of the counters after an extension, or a renewal", all)
	m.Unlock()
}
