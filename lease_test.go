package redimutex_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Until is the moment before sending, plus the TTL, minus 1% of it and 2 ms. The time of the reply shortens the lease.
func TestValidityCountsFromTheMomentBeforeSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		slow := redistest.NewBetween(pool)
		m := newMutex(t, slow, "k", redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(5*time.Second))
		m.Lock()
		m.Unlock()
		slow.Set(func(command redistest.Command) (any, error) {
			reply, err := command.Run()
			time.Sleep(3 * time.Second) // the reply is on its way
			return reply, err
		})
		began := time.Now()
		require.NoError(t, m.TryLockContext(t.Context()))
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.Equal(t, began.Add(10*time.Second-100*time.Millisecond-2*time.Millisecond), m.Lease().Until())
		slow.Set(nil)
		m.Unlock()
	})
}

func TestLessThanHalfOfTheValidityIsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		slow := redistest.NewBetween(pool)
		m := newMutex(t, slow, "k", redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(9*time.Second))
		m.Lock()
		m.Unlock()
		for range 20 {
			slow.Set(func(command redistest.Command) (any, error) {
				reply, err := command.Run()
				slow.Set(nil)
				time.Sleep(6 * time.Second)
				return reply, err
			})
			err := m.TryLockContext(t.Context())
			assert.ErrorIs(t, err, redimutex.ErrUnavailable)
			var node *redimutex.NodeError
			assert.ErrorAs(t, err, &node)
			assert.Nil(t, m.Lease())
			synctest.Wait()
			assert.False(t, server.Exists("k"), "what was granted too late is given back")
		}
	})
}

func TestLessThanHalfOfTheValidityIsNoSuccessOverSeveralServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pools []redimutex.Pool
		var slow []*redistest.Between
		for range 3 {
			server, pool := redistest.Virtual(t)
			defer func() { assert.False(t, server.Exists("k"), "what was granted too late is given back") }()
			slow = append(slow, redistest.NewBetween(pool))
			pools = append(pools, slow[len(slow)-1])
		}
		m := newClientOver(t, pools, redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(9*time.Second)).Mutex("k")
		m.Lock()
		m.Unlock()
		for _, s := range slow[:2] {
			s.Set(func(command redistest.Command) (any, error) {
				defer s.Set(nil)
				defer time.Sleep(6 * time.Second)
				return command.Run()
			})
		}
		assert.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrUnavailable)
		assert.Nil(t, m.Lease())
		time.Sleep(time.Minute)
	})
}

func TestUnlockBeforeTheShortestHoldLeavesTheKeyToExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		client := newClient(t, pool, redimutex.WithTTL(10*time.Second), redimutex.WithMinHold(time.Minute))
		m := client.Mutex("k")
		began := time.Now()
		m.Lock()
		time.Sleep(20 * time.Second)
		assert.LessOrEqual(t, server.TTL("k"), 10*time.Second, "after a crash it ends with its TTL")
		require.NoError(t, m.UnlockContext(t.Context()))
		assert.Equal(t, 40*time.Second, server.TTL("k").Round(time.Second))
		require.ErrorIs(t, client.Mutex("k").TryLockContext(t.Context()), redimutex.ErrLocked, "not for this process either")
		require.NoError(t, m.LockContext(t.Context(), 2*time.Minute))
		assert.WithinDuration(t, began.Add(time.Minute), time.Now(), time.Second)
		time.Sleep(61 * time.Second)
		require.NoError(t, m.UnlockContext(t.Context()))
		assert.False(t, server.Exists("k"), "after the shortest hold it is deleted")
	})
}

func TestContextOfALeaseEndsWithItsParent(t *testing.T) {
	t.Parallel()
	m := newMutex(t, redistest.Start(t).Pool(), "k")
	m.Lock()
	l := m.Lease()
	parent, cancel := context.WithCancelCause(t.Context())
	ctx := l.Context(parent)
	cause := errors.New("of the parent")
	cancel(cause)
	<-ctx.Done()
	assert.ErrorIs(t, context.Cause(ctx), cause)
	assert.NoError(t, l.Err())
	ctx = l.Context(t.Context())
	m.Unlock()
	<-ctx.Done()
	assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrUnlocked)
	ctx = l.Context(t.Context())
	<-ctx.Done()
	assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrUnlocked, "of a hold that has ended before")
}

func TestTheContextsOfALeaseAreCancelledOnceItIsDone(t *testing.T) {
	t.Parallel()
	m := newMutex(t, redistest.Start(t).Pool(), "k")
	l, err := m.Acquire(t.Context())
	require.NoError(t, err)
	contexts := make([]context.Context, 10_000)
	for i := range contexts {
		contexts[i] = l.Context(t.Context())
	}
	go l.Release(t.Context()) //nolint:errcheck // the causes of the contexts show its outcome
	for ended := false; !ended; {
		select {
		case <-l.Done(): // Done may also be called only after the end
			ended = true
		default:
		}
	}
	for _, ctx := range contexts {
		require.ErrorIs(t, context.Cause(ctx), redimutex.ErrUnlocked)
	}
}
