package redlock_test

import (
	"context"
	"slices"
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
)

// start starts n servers and a patient Client over them.
func start(t *testing.T, n int, opts ...redimutex.Option) (locktest.Servers, *redimutex.Client) {
	t.Helper()
	servers := locktest.Start(t, n)
	_, pools := servers.Pools()
	return servers, patientClient(t, pools, opts...)
}

// patientClient returns a Client with a node timeout that is too long for a busy machine to reach.
func patientClient(t *testing.T, pools []redimutex.Pool, opts ...redimutex.Option) *redimutex.Client {
	t.Helper()
	return newClientOver(t, pools, append([]redimutex.Option{redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10 * time.Second)}, opts...)...)
}

// slowBesideDead kills one of three servers and stops another, until the stopped one owes an answer for long enough to be
// suspected. Then it calls call, which needs the stopped server. Only then does that server go on.
func slowBesideDead(t *testing.T, held bool, call func(m *redimutex.Mutex) error) {
	t.Parallel()
	servers, client := start(t, 3)
	defer servers[1].Resume()
	m, other := client.Mutex("k"), client.Mutex("other")
	for _, m := range []*redimutex.Mutex{m, other} { // the Client knows the servers now
		require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
		require.NoError(t, m.UnlockContext(t.Context()))
	}
	for range 3 {
		if held {
			require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
			servers[1:].Everywhere(t, "k", m.Lease(), time.Minute)
		}
		servers[0].Kill()
		servers[1].Pause()
		owed := make(chan error, 1)
		go func() { owed <- other.TryLockContext(t.Context()) }()
		time.Sleep(100 * time.Millisecond) // the test can't see which server the Client suspects
		result := make(chan error, 1)
		go func() { result <- call(m) }()
		select {
		case err := <-result:
			require.NoError(t, err, "it was decided without the server that could have been the majority's second")
		case <-time.After(80 * time.Millisecond):
			servers[1].Resume()
			require.NoError(t, <-result)
		}
		require.NoError(t, <-owed)
		servers[1].Resume()
		servers[0].Restart()
		for _, m := range []*redimutex.Mutex{m, other} {
			if m.Lease() != nil {
				require.NoError(t, m.UnlockContext(t.Context()))
			}
		}
	}
}

func TestASlowServerIsAskedWhenAnotherIsDead(t *testing.T) {
	ctx := context.Background()
	for name, call := range map[string]func(m *redimutex.Mutex) error{
		"the lock": func(m *redimutex.Mutex) error {
			if err := m.TryLockContext(ctx); err != nil {
				return err
			}
			return m.UnlockContext(ctx)
		},
		"an extension": func(m *redimutex.Mutex) error { return m.Lease().Extend(ctx, 2*time.Minute) },
		"the release":  func(m *redimutex.Mutex) error { return m.UnlockContext(ctx) },
	} {
		t.Run(name, func(t *testing.T) { slowBesideDead(t, name != "the lock", call) })
	}
}

// Two of three servers, one after the other, lose their data and are away for longer than a TTL.
func TestALockIsHeldWhileServersRestartOneAfterTheOther(t *testing.T) {
	redistest.Differs(t, "can't be killed")
	for name, opts := range map[string][]redimutex.Option{
		"plain": nil, "fencing and guard": {redimutex.WithFencing(), redimutex.WithRestartGuard()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const attempts = 3 // a machine that stands still for too long loses any lease
			for attempt := 1; ; attempt++ {
				lateness := redistest.MeasureLateness()
				lost := heldWhileServersRestart(t, opts...)
				if late := lateness.Stop(); lost == nil || late < 200*time.Millisecond || attempt == attempts {
					require.NoError(t, lost, "the machine was late by %v", late)
					return
				}
			}
		})
	}
}

// heldWhileServersRestart returns why the lease was lost, or nil.
func heldWhileServersRestart(t *testing.T, opts ...redimutex.Option) (lost error) {
	t.Helper()
	const ttl = 1500 * time.Millisecond
	servers, _, client := behindFronts(t, 3, append(slices.Clone(opts), redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(500*time.Millisecond))...)
	m := client.Mutex("k")
	require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
	l := m.Lease()
	for _, s := range servers[:2] { // unless the first server's vote is regained, the second restart ends the lease
		redistest.Wait(t, "the lock on all servers", func() bool {
			return l.Err() != nil || servers.All("k", l.Token())
		})
		s.Kill()
		redistest.Wait(t, "a renewal without it", func() bool { return l.Err() != nil || time.Until(l.Until()) > ttl/2 })
		time.Sleep(ttl)
		s.Restart()
	}
	if l.Err() != nil {
		return l.Err()
	}
	require.NoError(t, m.UnlockContext(t.Context()))
	redistest.Wait(t, "nothing is left", func() bool { return servers.All("k", "") })
	return nil
}

// A server is asked to vote again. That request is late on its way, and arrives after the release.
func TestAVoteThatIsRegainedAfterTheReleaseIsGivenBack(t *testing.T) {
	t.Parallel()
	servers, fronts, client := behindFronts(t, 3, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second))
	m := client.Mutex("k")
	require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
	require.NoError(t, m.Lease().Extend(t.Context(), time.Minute)) // all servers know the scripts now
	token := m.Lease().Token()
	redistest.Wait(t, "the lock on all servers", func() bool { return servers.All("k", token) })
	late := make(chan struct{})
	var commands atomic.Int64
	fronts[2].On(func(command []string) redistest.Fate { // the first command about the lock finds it gone
		if !slices.Contains(command, token) || commands.Add(1) != 2 {
			return redistest.Fate{}
		}
		close(late)
		return redistest.Fate{Delay: 300 * time.Millisecond}
	})
	servers[2].Do("DEL", "k")
	require.NoError(t, m.Lease().Extend(t.Context(), time.Minute))
	<-late
	require.NoError(t, m.UnlockContext(t.Context()))
	time.Sleep(400 * time.Millisecond)                 // until it has arrived
	redistest.Wait(t, "nothing is left", func() bool { // it would be there for a minute
		return servers.All("k", "")
	})
}

// The server is told the fence before it is asked to vote again. Meanwhile the lease is lost.
func TestNoVoteIsRegainedForALeaseThatWasLost(t *testing.T) {
	t.Parallel()
	servers, fronts, client := behindFronts(t, 3, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second), redimutex.WithFencing())
	l, err := client.Mutex("k").Acquire(t.Context())
	require.NoError(t, err)
	redistest.Wait(t, "the lock on all servers", func() bool { return servers.All("k", l.Token()) })
	raising, lost := make(chan struct{}), make(chan struct{})
	raises := sync.OnceFunc(func() { close(raising) }) // it comes twice if the server does not know the script
	fronts[2].On(func(command []string) redistest.Fate {
		if slices.Contains(command, strconv.FormatInt(l.Fence(), 10)) {
			raises()
			<-lost
		}
		return redistest.Fate{}
	})
	servers[2].Do("DEL", "k")
	require.NoError(t, l.Extend(t.Context(), time.Minute))
	redistest.Receive(t, "the fence", raising)
	servers[0].Do("DEL", "k")
	servers[1].Do("DEL", "k")
	assert.ErrorIs(t, l.Extend(t.Context(), time.Minute), redimutex.ErrLost)
	close(lost)
	require.NoError(t, client.Close()) // waits for the commands under way
	assert.Empty(t, servers[2].Get("k"))
}

// The error says what each server has answered, and not only that nothing was decided.
func TestATryThatItsCtxCutsShortNamesTheServerThatRefuses(t *testing.T) {
	t.Parallel()
	c := locktest.Start(t, 3)
	client := c.Client(t, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Minute))
	require.NoError(t, client.Mutex("warm").TryLockContext(t.Context()))
	c[0].Kill()
	c[1].Pause()
	c[2].Pause()
	t.Cleanup(c[1].Resume)
	t.Cleanup(c[2].Resume)
	err := client.Mutex("k").LockContext(t.Context(), 500*time.Millisecond)
	assert.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.ErrorContains(t, err, "connection refused")
}
