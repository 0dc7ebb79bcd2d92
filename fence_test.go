package redimutex_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
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
			c := startServers(t, n, redistest.Start)
			var mu sync.Mutex
			var fences []int64
			var group sync.WaitGroup
			for range 4 {
				m := c.client(t, redimutex.WithFencing(), redimutex.WithPollInterval(2*time.Millisecond), redimutex.WithTTL(30*time.Second)).Mutex("k")
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

// A fence is the server's clock where that is ahead, so the counter may vanish.
func TestFencesRiseWhenTheirCounterIsGone(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := startServers(t, n, redistest.Start)
			m := c.client(t, redimutex.WithFencing(), redimutex.WithTTL(30*time.Second)).Mutex("k")
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
						s.Do("PEXPIRE", key, 1)
						redistest.Wait(t, "the expiry", func() bool { return !exists(t, s, key) })
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

// The counter is what makes fences rise where the clock does not: it was set back, or is another server's.
func TestFencesRiseWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.Addr()) }}
	t.Cleanup(func() { pool.Close() })
	mu := newMutex(t, pool, "k", redimutex.WithFencing())
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

// A skewed cluster has embedded servers whose clocks differ by hours, the first being ahead of all.
type skewed struct {
	servers []*miniredis.Miniredis
	between []*redistest.Between
	mutex   *redimutex.Mutex
}

func startSkewed(t *testing.T, n int, opts ...redimutex.Option) *skewed {
	t.Helper()
	c := &skewed{}
	var pools []redimutex.Pool
	for i := range n {
		m := miniredis.RunT(t)
		m.SetTime(time.Now().Add(-time.Duration(i) * time.Hour))
		pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.Addr()) }}
		t.Cleanup(func() { pool.Close() })
		b := redistest.NewBetween(pool)
		c.servers = append(c.servers, m)
		c.between = append(c.between, b)
		pools = append(pools, b)
	}
	c.mutex = newClient(t, pools, append(opts, redimutex.WithFencing())...).Mutex("k")
	return c
}

// standing returns how many servers have a counter of at least f.
func (c *skewed) standing(f int64) (n int) {
	for _, m := range c.servers {
		for _, key := range m.Keys() {
			if v, err := m.Get(key); err == nil && strings.Contains(key, "fence") {
				var have int64
				fmt.Sscan(v, &have)
				if have >= f {
					n++
				}
			}
		}
	}
	return n
}

// The lock returns the fence of the server that is ahead; the others would give a lower one next.
func TestHighestFenceIsOnAQuorumWhenLockReturns(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := startSkewed(t, n)
			ahead := 0
			for range 20 {
				require.NoError(t, c.mutex.LockContext(t.Context(), time.Minute))
				f := c.mutex.Lease().Fence()
				assert.GreaterOrEqual(t, c.standing(f), n/2+1)
				if f >= time.Now().Add(-time.Minute).UnixMicro() {
					ahead++
				}
				require.NoError(t, c.mutex.UnlockContext(t.Context()))
				for _, m := range c.servers { // as if each had been asked for the first time
					m.FlushAll()
				}
			}
			assert.Positive(t, ahead, "the server that is ahead was never in the quorum, so nothing was shown")
		})
	}
}

// isRaise tells the write-back of a fence from the other commands.
func isRaise(command string, args []any) bool {
	return strings.HasPrefix(command, "EVAL") && len(args) == 5 && strings.Contains(fmt.Sprint(args[2]), "fence")
}

func TestWriteBackDoesNotWaitForAMinorityThatHangs(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := startSkewed(t, n, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second))
			hang := make(chan struct{})
			var raises sync.Map
			for i, b := range c.between[n-n/2:] { // those whose clocks are behind most
				b.Set(func(run func() (any, error), command string, args []any) (any, error) {
					if isRaise(command, args) {
						raises.Store(i, true)
						<-hang
						return nil, redistest.ErrCut
					}
					return run()
				})
			}
			last := int64(0)
			for range 3 {
				began := time.Now()
				require.NoError(t, c.mutex.LockContext(t.Context(), 0))
				assert.Less(t, time.Since(began), 15*time.Second, "it did not sit out the node timeout")
				f := c.mutex.Lease().Fence()
				assert.Greater(t, f, last)
				assert.GreaterOrEqual(t, c.standing(f), n/2+1)
				require.NoError(t, c.mutex.UnlockContext(t.Context()))
				last = f
			}
			hung := 0
			raises.Range(func(any, any) bool { hung++; return true })
			assert.Positive(t, hung, "a write-back did hang")
			close(hang)
		})
	}
}

func TestFenceThatCannotBeWrittenBackIsNotGiven(t *testing.T) {
	t.Parallel()
	c := startSkewed(t, 3, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(time.Second))
	for _, b := range c.between[1:] {
		b.Set(func(run func() (any, error), command string, args []any) (any, error) {
			if isRaise(command, args) {
				return nil, redistest.ErrCut
			}
			return run()
		})
	}
	err := c.mutex.TryLockContext(t.Context())
	if err == nil {
		require.NoError(t, c.mutex.UnlockContext(t.Context()))
		t.Fatal("the fence is on one server only, and was given")
	}
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.Nil(t, c.mutex.Lease())
	redistest.Wait(t, "the lock to be given back everywhere", func() bool {
		return !slices.ContainsFunc(c.servers, func(m *miniredis.Miniredis) bool { return m.Exists("k") })
	})
}

func TestFencesRiseWhenAMinorityLostItsData(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d servers with skewed clocks", n), func(t *testing.T) {
			t.Parallel()
			c := startSkewed(t, n, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second))
			last := int64(0)
			for round := range 4 * n {
				// Who loses data next must not be the one that others rely on, so first all have the fence. A
				// server that is slow for a moment is left out, and gets the next one.
				redistest.Wait(t, "a fence that all servers have", func() bool {
					f := fence(t, c.mutex)
					require.Greater(t, f, last)
					last = f
					for range 100 {
						if c.standing(f) == n {
							return true
						}
						runtime.Gosched()
					}
					return false
				})
				for i := range n / 2 {
					c.servers[(round+i)%n].FlushAll()
				}
			}
		})
		t.Run(fmt.Sprintf("%d servers that restart", n), func(t *testing.T) {
			t.Parallel()
			c := startServers(t, n, redistest.Start)
			last := int64(0)
			for round := range n {
				m := c.client(t, redimutex.WithFencing(), redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second)).Mutex("k")
				f := fence(t, m)
				assert.Greater(t, f, last)
				last = f
				for i := range n / 2 {
					c[(round+i)%n].Restart()
				}
			}
		})
	}
}

// The third server is cut off from the try and hears of the write-back alone: it is raised if it is
// behind, stays as it is if it is ahead, and keeps its counter for another hour either way.
func TestWriteBackRaisesAndNeverLowers(t *testing.T) {
	t.Parallel()
	c := startSkewed(t, 3)
	_ = fence(t, c.mutex)
	third := c.servers[2]
	key := slices.DeleteFunc(third.Keys(), func(key string) bool { return !strings.Contains(key, "fence") })[0]
	c.between[2].Set(func(run func() (any, error), command string, args []any) (any, error) {
		if isRaise(command, args) {
			return run()
		}
		return nil, redistest.ErrCut
	})
	for _, has := range []int64{0, 17, time.Now().Add(1000 * time.Hour).UnixMicro()} {
		third.Del(key)
		if has > 0 {
			require.NoError(t, third.Set(key, fmt.Sprint(has)))
			third.SetTTL(key, time.Second)
		}
		f := fence(t, c.mutex)
		redistest.Wait(t, "the write-back", func() bool { return third.Exists(key) && third.TTL(key) > 30*time.Minute })
		assert.LessOrEqual(t, third.TTL(key), time.Hour+10*time.Second)
		now, err := third.Get(key)
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(max(f, has)), now)
	}
}

func TestFenceCounterIsInTheSlotOfItsLockAndExpires(t *testing.T) {
	t.Parallel()
	_, busPort, _ := strings.Cut(redistest.FreeAddr(t), ":")
	s := redistest.Real(t, "--cluster-enabled", "yes", "--cluster-port", busPort)
	s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	redistest.Wait(t, "the cluster of one to be ready", func() bool {
		info, _ := s.Do("CLUSTER", "INFO").([]byte)
		return strings.Contains(string(info), "cluster_state:ok")
	})
	client := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithFencing(), redimutex.WithTTL(time.Minute))
	names := make(map[string]string)
	for _, key := range []string{
		"k", "orders:17", "{user}:k", "a{b}c", "{}x", "x{}", "a}b", "{a", "}{", "{}{a}", "{a}{b}", "{{a}}", "ключ", "with space", "k:fence",
	} {
		before := s.Keys()
		m := client.Mutex(key)
		require.NoError(t, m.TryLockContext(t.Context()), "a script with keys of two slots would be refused")
		require.NoError(t, m.UnlockContext(t.Context()))
		added := slices.DeleteFunc(s.Keys(), func(k string) bool { return slices.Contains(before, k) })
		require.Len(t, added, 1, "one key for %q, and none that another lock uses", key)
		assert.Equal(t, s.Do("CLUSTER", "KEYSLOT", key), s.Do("CLUSTER", "KEYSLOT", added[0]), "%q and %q", key, added[0])
		left := pttl(t, s, added[0])
		assert.Greater(t, left, 30*time.Minute)
		assert.LessOrEqual(t, left, time.Hour+time.Minute)
		names[added[0]] = key
	}
	assert.Len(t, names, 15)
}

// The hour counts from the last use, whoever had the fence: each lock, and each write-back, starts it anew.
func TestUseKeepsTheFenceCounter(t *testing.T) {
	t.Parallel()
	c := startServers(t, 3, redistest.Start)
	m := c.client(t, redimutex.WithFencing(), redimutex.WithTTL(time.Minute)).Mutex("k")
	_ = fence(t, m)
	for _, s := range c {
		redistest.Wait(t, "the counter", func() bool { return len(siblings(t, s, "k")) == 1 })
		s.Do("PEXPIRE", siblings(t, s, "k")[0], 60_000)
	}
	_ = fence(t, m)
	for _, s := range c {
		redistest.Wait(t, "the TTL of the counter", func() bool { return pttl(t, s, siblings(t, s, "k")[0]) > 30*time.Minute })
	}
}

func TestFenceStaysThatOfTheHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithFencing(), redimutex.WithTTL(500*time.Millisecond))
	m := client.Mutex("k")
	m.Lock()
	stale := m.Lease()
	f := stale.Fence()
	s.Do("DEL", "k")
	<-stale.Done()
	other := newMutex(t, s.Pool(), "k", redimutex.WithFencing())
	require.NoError(t, other.LockContext(context.Background(), time.Minute))
	assert.Equal(t, f, stale.Fence(), "a stale holder never gets the fence of the next")
	assert.Greater(t, other.Lease().Fence(), f)
	other.Unlock()
	require.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
}
