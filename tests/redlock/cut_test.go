package redlock_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// A path is a way to n servers that can be blocked, with pools of one kind that use it.
type path struct {
	proxies []*redistest.Proxy
	pools   []redimutex.Pool
}

// overPaths calls f with plain pools, and with pools whose operations run on the caller's goroutine.
func overPaths(t *testing.T, n int, f func(t *testing.T, p path)) {
	for name, pool := range map[string]func(*redistest.Proxy) redimutex.Pool{
		"plain": func(p *redistest.Proxy) redimutex.Pool { return p.Pool() },
		"ours":  func(p *redistest.Proxy) redimutex.Pool { return redimutex.NewPoolAt("tcp", p.Addr()) },
	} {
		t.Run(name+strconv.Itoa(n), func(t *testing.T) {
			var p path
			for _, s := range locktest.Start(t, n) {
				p.proxies = append(p.proxies, s.Proxy())
				p.pools = append(p.pools, pool(p.proxies[len(p.proxies)-1]))
			}
			f(t, p)
		})
	}
}

// warm makes the Client learn how fast the servers are.
func warm(t *testing.T, m *redimutex.Mutex) {
	t.Helper()
	for range 60 {
		require.NoError(t, m.LockContext(t.Context(), 0))
		require.NoError(t, m.UnlockContext(t.Context()))
	}
}

// cutShort delays the next reply of each server by late, and cuts a call after 50 ms. It reports whether the call was cut.
func (p path) cutShort(t *testing.T, m *redimutex.Mutex, late time.Duration) bool {
	t.Helper()
	for _, proxy := range p.proxies {
		var done atomic.Bool
		proxy.Treat(func(reply bool) (treatment redistest.Treatment) {
			if reply && !done.Swap(true) {
				treatment.Delay = late
			}
			return treatment
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if m.TryLockContext(ctx) != nil {
		return true
	}
	require.NoError(t, m.UnlockContext(t.Context()))
	return false
}

// If a server hangs for minutes, each call that asks it must not leave a goroutine and a connection there.
func TestCallsThatAreCutLeaveFewGoroutinesAtServersThatHang(t *testing.T) {
	overPaths(t, 3, func(t *testing.T, p path) {
		client := patientClient(t, p.pools)
		warm(t, client.Mutex("k"))
		for _, proxy := range p.proxies[1:] {
			proxy.Hold()
			defer proxy.Release()
		}
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for n := range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
					assert.Error(t, client.Mutex(strconv.Itoa(100*i+n)).LockContext(ctx, 0))
					cancel()
				}
			})
		}
		callers.Wait()
		assert.Less(t, locktest.Goroutines(), 200)
	})
}

// A hand-over asks all servers for their votes, even if a majority has voted without the hanging one.
func TestHandOversLeaveFewGoroutinesAtAServerThatHangs(t *testing.T) {
	overPaths(t, 3, func(t *testing.T, p path) {
		client := newClientOver(t, p.pools, redimutex.WithTTL(2*time.Minute))
		warm(t, client.Mutex("k"))
		handOver := func(m *redimutex.Mutex) {
			lease, err := m.Acquire(t.Context())
			if !assert.NoError(t, err) {
				return
			}
			lock, err := lease.HandOver(t.Context(), time.Minute)
			assert.NoError(t, err)
			assert.NoError(t, m.TakeOver(t.Context(), lock))
			assert.NoError(t, m.UnlockContext(t.Context()))
		}
		p.proxies[0].Hold()
		defer p.proxies[0].Release()
		handOver(client.Mutex("first"))
		time.Sleep(10 * server.MinSilence) // now it is clear that the server hangs
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for range 100 {
					handOver(client.Mutex(strconv.Itoa(i)))
				}
			})
		}
		callers.Wait()
		assert.Less(t, locktest.Goroutines(), 600) // otherwise one of each hand-over remains
	})
}

// The next try does not meet what the cut call has left, though the servers still owe that call an answer.
func TestATryBehindACutCallDoesNotMeetWhatThatHasLeft(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		overPaths(t, n, func(t *testing.T, p path) {
			m := patientClient(t, p.pools).Mutex("k")
			for range 4 {
				warm(t, m)
				if p.cutShort(t, m, time.Second) {
					require.NoError(t, m.TryLockContext(t.Context()))
					require.NoError(t, m.UnlockContext(t.Context()))
				}
			}
		})
	}
}

// Half of the node timeout is 10 s here. The other process must not have to wait for so long.
func TestWhatACutCallHasLeftKeepsOtherProcessesOutForAMoment(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		overPaths(t, n, func(t *testing.T, p path) {
			long := redimutex.WithNodeTimeout(20 * time.Second)
			m, other := patientClient(t, p.pools, long).Mutex("k"), patientClient(t, p.pools, long).Mutex("k")
			warm(t, m)
			if p.cutShort(t, m, 15*time.Second) {
				require.NoError(t, other.LockContext(t.Context(), 8*time.Second))
				require.NoError(t, other.UnlockContext(t.Context()))
			}
			for _, proxy := range p.proxies {
				proxy.Cut() // now Close does not wait for the late answer
			}
		})
	}
}
