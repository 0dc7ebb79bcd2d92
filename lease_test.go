package redimutex_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestLeaseIsThatOfTheCurrentHold(t *testing.T) {
	t.Parallel()
	m := newMutex(t, redistest.Start(t).Pool(), "k")
	assert.Nil(t, m.Lease())
	m.Lock()
	first := m.Lease()
	assert.NoError(t, first.Err())
	assert.False(t, ended(first.Done()))
	assert.Zero(t, first.Fence())
	m.Unlock()
	assert.Nil(t, m.Lease())
	assert.True(t, ended(first.Done()))
	assert.ErrorIs(t, first.Err(), redimutex.ErrUnlocked)
	assert.NotErrorIs(t, first.Err(), redimutex.ErrLost)
	m.Lock()
	defer m.Unlock()
	assert.NotSame(t, first, m.Lease())
	assert.ErrorIs(t, first.Err(), redimutex.ErrUnlocked, "an old Lease stays what it was")
}

// Until is the moment before sending, plus the TTL, less 1% of it and 2 ms. What the reply takes
// comes off it.
func TestValidityCountsFromTheMomentBeforeSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		slow := redistest.NewBetween(pool)
		m := newMutex(t, slow, "k", redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(5*time.Second))
		m.Lock()
		m.Unlock()
		slow.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
			reply, err := run()
			time.Sleep(3 * time.Second) // the reply is under way
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
			slow.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
				reply, err := run()
				slow.Set(nil)
				time.Sleep(6 * time.Second)
				return reply, err
			})
			err := m.TryLockContext(t.Context())
			assert.ErrorIs(t, err, redimutex.ErrUnavailable)
			var node redimutex.NodeError
			assert.ErrorAs(t, err, &node)
			assert.Nil(t, m.Lease())
			synctest.Wait()
			assert.False(t, server.Exists("k"), "what was granted too late is given back")
		}
	})
}

func TestRenewalKeepsTheLockPastItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(9*time.Second))
		m.Lock()
		l := m.Lease()
		for range 600 {
			time.Sleep(time.Second)
			require.NoError(t, l.Err())
			require.True(t, server.Exists("k"))
			// Renewals come at a third of the TTL.
			require.Greater(t, time.Until(l.Until()), 5500*time.Millisecond)
			require.Greater(t, server.TTL("k"), 5500*time.Millisecond)
		}
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

func TestRenewalKeepsTheLockOnARealServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithTTL(1500*time.Millisecond), redimutex.WithNodeTimeout(time.Second))
	m := client.Mutex("k")
	m.Lock()
	l := m.Lease()
	redistest.Wait(t, "6 renewals, which is twice the TTL", func() bool { return client.Stats().Renewed >= 6 })
	assert.NoError(t, l.Err())
	assert.Equal(t, l.Token(), s.Get("k"))
	assert.NoError(t, m.UnlockContext(t.Context()))
}

func TestWithoutRenewalTheLeaseEndsWithItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(10*time.Second), redimutex.WithoutRenewal())
		m.Lock()
		l, until := m.Lease(), m.Lease().Until()
		ctx := l.Context(t.Context())
		<-l.Done()
		assert.False(t, time.Now().After(until), "told at the end of the validity at the latest")
		assert.WithinDuration(t, until, time.Now(), 200*time.Millisecond)
		assert.Equal(t, redimutex.LostError{Key: "k", Reason: redimutex.Expired}, l.Err())
		synctest.Wait()
		assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrLost)
		err := m.UnlockContext(t.Context())
		assert.ErrorIs(t, err, redimutex.ErrLost)
		assert.ErrorContains(t, err, "expired")
		m.Lock() // works again
		m.Unlock()
	})
}

func TestNoRenewalAfterTheLongestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		client := newClient(t, []redimutex.Pool{pool}, redimutex.WithTTL(9*time.Second), redimutex.WithMaxHold(4*time.Second))
		m := client.Mutex("k")
		began := time.Now()
		m.Lock()
		<-m.Lease().Done()
		assert.LessOrEqual(t, time.Since(began), 13*time.Second, "lost a TTL after the longest hold at the latest")
		assert.GreaterOrEqual(t, time.Since(began), 9*time.Second)
		assert.EqualValues(t, 1, client.Stats().Renewed)
		assert.Equal(t, redimutex.LostError{Key: "k", Reason: redimutex.Expired}, m.Lease().Err())
		assert.Error(t, m.UnlockContext(t.Context()))
	})
}

func TestUnlockBeforeTheShortestHoldLeavesTheKeyToExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		client := newClient(t, []redimutex.Pool{pool}, redimutex.WithMinHold(time.Minute))
		m := client.Mutex("k")
		began := time.Now()
		m.Lock()
		time.Sleep(20 * time.Second)
		require.NoError(t, m.UnlockContext(t.Context()))
		assert.Equal(t, 40*time.Second, server.TTL("k").Round(time.Second))
		assert.ErrorIs(t, client.Mutex("k").TryLockContext(t.Context()), redimutex.ErrLocked, "not for this process either")
		m.Lock()
		assert.WithinDuration(t, began.Add(time.Minute), time.Now(), time.Second)
		m.Unlock()
	})
}

func TestUnlockAfterTheShortestHoldDeletesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithMinHold(time.Minute))
		m.Lock()
		time.Sleep(61 * time.Second)
		require.NoError(t, m.UnlockContext(t.Context()))
		assert.False(t, server.Exists("k"))
	})
}

func TestExtendMovesTheEndAndWhatRenewalsAskFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(10*time.Second))
		m.Lock()
		l := m.Lease()
		for _, ttl := range []time.Duration{time.Hour, 100 * time.Second, time.Second} {
			require.NoError(t, l.Extend(t.Context(), ttl))
			assert.Equal(t, time.Now().Add(ttl-ttl/100-2*time.Millisecond), l.Until())
			assert.Equal(t, ttl, server.TTL("k"))
			time.Sleep(5 * ttl)
			require.NoError(t, l.Err(), "renewed")
			assert.Greater(t, server.TTL("k"), ttl/2)
			assert.LessOrEqual(t, server.TTL("k"), ttl)
		}
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

func TestExtendWithoutRenewalCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(10*time.Second), redimutex.WithoutRenewal())
		m.Lock()
		l := m.Lease()
		time.Sleep(8 * time.Second)
		extended := time.Now()
		require.NoError(t, l.Extend(t.Context(), 20*time.Second))
		<-l.Done()
		assert.WithinDuration(t, extended.Add(20*time.Second), time.Now(), 300*time.Millisecond)
		assert.Error(t, m.UnlockContext(t.Context()))
	})
}

func TestExtendRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	m.Lock()
	l := m.Lease()
	until := l.Until()
	for _, ttl := range []time.Duration{-time.Second, 0, 500 * time.Microsecond, 9 * time.Millisecond} {
		assert.ErrorContains(t, l.Extend(t.Context(), ttl), ttl.String())
	}
	assert.Equal(t, until, l.Until(), "nothing has changed")
	assert.True(t, exists(t, s, "k"))
	cause := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	assert.ErrorIs(t, l.Extend(ctx, time.Minute), cause)

	m.Unlock()
	assert.ErrorIs(t, l.Extend(t.Context(), time.Minute), redimutex.ErrUnlocked)
	assert.False(t, exists(t, s, "k"), "an extension never re-creates a key")
}

// A renewal is under way and does not end: Extend waits for it, until its ctx or the hold ends.
func TestExtendWaitsForARenewalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		hung := redistest.NewBetween(pool)
		m := newMutex(t, hung, "k", redimutex.WithTTL(9*time.Second), redimutex.WithNodeTimeout(8*time.Second))
		m.Lock()
		l := m.Lease()
		answer := make(chan struct{})
		hung.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
			<-answer
			return run()
		})
		time.Sleep(4 * time.Second) // it is under way
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, l.Extend(ctx, time.Minute), context.DeadlineExceeded)
		extended := make(chan error, 2)
		go func() { extended <- l.Extend(t.Context(), time.Minute) }()
		synctest.Wait()
		assert.Empty(t, extended)
		hung.Set(nil)
		close(answer)
		assert.NoError(t, <-extended)
		assert.Greater(t, time.Until(l.Until()), 50*time.Second)
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

func TestExtendThatWaitsHearsOfTheEndOfTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		hung := redistest.NewBetween(pool)
		m := newMutex(t, hung, "k", redimutex.WithTTL(9*time.Second), redimutex.WithNodeTimeout(8*time.Second))
		m.Lock()
		l := m.Lease()
		answer := make(chan struct{})
		hung.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
			<-answer
			return run()
		})
		time.Sleep(4 * time.Second)
		extended := make(chan error)
		go func() { extended <- l.Extend(l.Context(t.Context()), time.Minute) }()
		<-l.Done()
		assert.ErrorIs(t, <-extended, redimutex.ErrLost)
		hung.Set(nil)
		close(answer)
		assert.Error(t, m.UnlockContext(t.Context()))
	})
}

func TestExtendFindsALoss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	for reason, lose := range map[redimutex.Reason]func(){
		redimutex.Deleted: func() { s.Do("DEL", "k") },
		redimutex.Taken:   func() { s.Do("SET", "k", "other", "PX", "60000") },
	} {
		s.Do("DEL", "k")
		m.Lock()
		l := m.Lease()
		lose()
		for range 2 {
			err := l.Extend(t.Context(), time.Minute)
			assert.ErrorIs(t, err, redimutex.ErrLost)
			var value redimutex.LostError
			var pointer *redimutex.LostError
			require.ErrorAs(t, err, &value)
			require.ErrorAs(t, err, &pointer)
			assert.Equal(t, redimutex.LostError{Key: "k", Reason: reason}, value)
			assert.Equal(t, value, *pointer)
		}
		assert.True(t, ended(l.Done()))
		if reason == redimutex.Taken {
			assert.Greater(t, pttl(t, s, "k"), 10*time.Second, "the other's TTL is not touched")
		}
		assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
	}
}

// The server has executed an extension that shortens the lease, and the reply was lost. Who
// believed in the old end would overlap with the next holder.
func TestShorteningOfUnknownOutcomeCounts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := redistest.NewBetween(s.Pool())
	m := newMutex(t, pool, "k", redimutex.WithTTL(time.Minute), redimutex.WithoutRenewal())
	m.Lock()
	l := m.Lease()
	pool.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
		_, err := run()
		return nil, errors.Join(err, redistest.ErrCut)
	})
	err := l.Extend(t.Context(), 5*time.Second)
	pool.Set(nil)
	assert.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.LessOrEqual(t, time.Until(l.Until()), pttl(t, s, "k"))
	assert.NoError(t, m.UnlockContext(t.Context()))
}

// A key that is deleted or taken while it is held is noticed by the next renewal.
func TestRenewalTellsThatTheKeyIsGone(t *testing.T) {
	for reason, lose := range map[redimutex.Reason]func(c redis.Conn) error{
		redimutex.Deleted: func(c redis.Conn) error { _, err := c.Do("DEL", "k"); return err },
		redimutex.Taken:   func(c redis.Conn) error { _, err := c.Do("SET", "k", "other", "PX", "60000"); return err },
	} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, pool := redistest.Virtual(t)
				client := newClient(t, []redimutex.Pool{pool}, redimutex.WithTTL(9*time.Second))
				m := client.Mutex("k")
				m.Lock()
				l := m.Lease()
				ctx := l.Context(t.Context())
				c := pool.Get()
				defer c.Close()
				require.NoError(t, lose(c))
				began := time.Now()
				<-l.Done()
				assert.LessOrEqual(t, time.Since(began), 3*time.Second+50*time.Millisecond, "a third of the TTL")
				assert.Equal(t, redimutex.LostError{Key: "k", Reason: reason}, l.Err())
				synctest.Wait()
				assert.Equal(t, l.Err(), context.Cause(ctx))
				time.Sleep(time.Minute)
				n, err := redis.Int(c.Do("EXISTS", "k"))
				require.NoError(t, err)
				assert.Zero(t, n, "a renewal never re-creates the key")
				assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
				s := client.Stats()
				assert.EqualValues(t, 1, s.LostDeleted+s.LostTaken)
			})
		})
	}
}

func TestRenewalIsRepeatedUntilTheValidityEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		cut := redistest.NewBetween(pool)
		client := newClient(t, []redimutex.Pool{cut}, redimutex.WithTTL(9*time.Second))
		m := client.Mutex("k")
		m.Lock()
		l := m.Lease()
		until := l.Until()
		cut.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
		time.Sleep(8 * time.Second)
		assert.NoError(t, l.Err())
		assert.GreaterOrEqual(t, client.Stats().NotRenewed, int64(5))
		cut.Set(nil)
		time.Sleep(time.Second)
		assert.NoError(t, l.Err(), "saved in the last second")
		assert.True(t, l.Until().After(until))
		cut.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
		until = l.Until()
		<-l.Done()
		assert.False(t, time.Now().After(until))
		assert.Equal(t, redimutex.LostError{Key: "k", Reason: redimutex.Expired}, l.Err())
		cut.Set(nil)
		assert.Error(t, m.UnlockContext(t.Context()))
	})
}

// A renewal hangs while the validity ends: the loss is told before, whatever the renewal does.
func TestLossIsToldInTimeWhileARenewalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		hung := redistest.NewBetween(pool)
		m := newMutex(t, hung, "k", redimutex.WithTTL(9*time.Second), redimutex.WithNodeTimeout(8*time.Second))
		m.Lock()
		l := m.Lease()
		until := l.Until()
		free := make(chan struct{})
		hung.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
			<-free
			return run()
		})
		<-l.Done()
		assert.False(t, time.Now().After(until))
		assert.ErrorIs(t, l.Err(), redimutex.ErrLost)
		assert.Equal(t, until, l.Until())
		hung.Set(nil)
		close(free)
		synctest.Wait()
		assert.ErrorIs(t, l.Err(), redimutex.ErrLost, "a late success does not revive it")
		assert.Error(t, m.UnlockContext(t.Context()))
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

// A renewal is slow to reach the server, and Unlock comes meanwhile.
func TestReleaseWaitsForARenewalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		slow := redistest.NewBetween(pool)
		m := newMutex(t, slow, "k", redimutex.WithTTL(9*time.Second), redimutex.WithNodeTimeout(4*time.Second))
		m.Lock()
		require.NoError(t, m.Lease().Extend(t.Context(), 9*time.Second))
		m.Unlock() // the server knows all scripts now, so that each is sent once
		m.Lock()
		var executed []int // in this order
		began := 0
		slow.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
			began++
			command := began
			if command == 1 {
				time.Sleep(2 * time.Second)
			}
			executed = append(executed, command)
			return run()
		})
		time.Sleep(4 * time.Second) // the renewal is under way
		require.NoError(t, m.UnlockContext(t.Context()))
		time.Sleep(time.Minute)
		assert.Equal(t, []int{1, 2}, executed)
		slow.Set(nil)
	})
}

// The leases are so short that renewals and releases meet all the time.
func TestNoRenewalRunsAfterUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	monitor := s.Monitor()
	client := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithTTL(60*time.Millisecond), redimutex.WithNodeTimeout(50*time.Millisecond))
	m := client.Mutex("k")
	var tokens []string
	for i := range 100 {
		require.NoError(t, m.LockContext(t.Context(), 0))
		l := m.Lease()
		tokens = append(tokens, l.Token())
		time.Sleep(18*time.Millisecond + time.Duration(i)*50*time.Microsecond) // about when a renewal is due
		_ = m.UnlockContext(t.Context())                                       // a slow machine may have lost the lease
	}
	lines := monitor.Lines()
	for _, token := range tokens {
		released, late := false, false
		for _, line := range lines {
			if !strings.Contains(line, token) || strings.Contains(line, " lua] ") {
				continue
			}
			// Key and token, and nothing else: the release. An extension has a TTL and a deadline as well.
			release := strings.HasSuffix(line, `"k" "`+token+`"`)
			late = late || released && !release
			released = released || release
		}
		assert.True(t, released)
		assert.False(t, late, "a renewal came after the release")
	}
	assert.Positive(t, client.Stats().Renewed)
}
