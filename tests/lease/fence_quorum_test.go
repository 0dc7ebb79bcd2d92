package lease_test

import (
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

// A skewed is a cluster of embedded servers whose clocks differ by hours. The first server is ahead of all others.
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
		addr := m.Addr() // after Close, m has no address, and a clean-up may still dial
		pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
		t.Cleanup(func() { pool.Close() })
		b := redistest.NewBetween(pool)
		c.servers = append(c.servers, m)
		c.between = append(c.between, b)
		pools = append(pools, b)
	}
	patient := []redimutex.Option{redimutex.WithFencing(), redimutex.WithNodeTimeout(4 * time.Second)}
	c.mutex = newClientOver(t, pools, append(patient, opts...)...).Mutex("k")
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

// The lock gets the fence of the server that is ahead. The next fence of the other servers alone would be lower.
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
				for _, m := range c.servers { // as if each server were asked for the first time
					m.FlushAll()
				}
			}
			assert.Positive(t, ahead, "the server that is ahead was never in the quorum, so nothing was shown")
		})
	}
}

// isRaise reports whether a command is the write-back of a fence.
func isRaise(command string, args []any) bool {
	if !strings.HasPrefix(command, "EVAL") || len(args) < 11 {
		return false
	}
	_, is := args[10].(int64) // the fence, after the script, the keys and six other arguments
	return is
}

func TestWriteBackDoesNotWaitForAMinorityThatHangs(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := startSkewed(t, n, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second))
			hang := make(chan struct{})
			var raises sync.Map
			for i, b := range c.between[n-n/2:] { // the servers whose clocks are most behind
				b.Set(func(command redistest.Command) (any, error) {
					if isRaise(command.Name, command.Args) {
						raises.Store(i, true)
						<-hang
						return nil, redistest.ErrCut
					}
					return command.Run()
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
		b.Set(func(command redistest.Command) (any, error) {
			if isRaise(command.Name, command.Args) {
				return nil, redistest.ErrCut
			}
			return command.Run()
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
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := startSkewed(t, n, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second))
			last := int64(0)
			for round := range 4 * n {
				// No quorum may rely on the server that loses its data next, so all servers must have the fence first. A
				// server that is slow for a moment is left out, and gets the next fence.
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
	}
}
