package election_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestTheLeadIsNotGivenAwayBeforeFHasReturned(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, one(s))
	e := election.New(c, key, "slow to stop")
	ctx, cancel := context.WithCancel(t.Context())
	leading, stop, over := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		over <- e.Run(ctx, func(ctx context.Context) error {
			close(leading)
			<-ctx.Done()
			<-stop // f takes time to clean up
			return nil
		})
	}()
	<-leading
	next := join(t, one(s), "next")
	waiting(t, s, 1)
	e.Resign()
	cancel()
	assert.False(t, e.IsLeader())
	assert.Equal(t, "slow to stop", leader(t, next.Election).Owner)
	renewed := c.Stats().Renewed
	redistest.Wait(t, "the lead is renewed while f stops", func() bool { return c.Stats().Renewed > renewed })
	assert.Empty(t, next.led())
	close(stop)
	require.ErrorIs(t, <-over, context.Canceled)
	next.leads(t, 1)
}

// The ctx of an inner candidate ends because the outer lead was resigned, because a lease around it was lost, or by itself.
func TestAnErrorOfFIsReturnedWhereWhatIsAroundTheElectionHasEnded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, one(s))
	mine := errors.New("mine")
	inner := election.New(c, "inner", "i")
	runs := func(ctx context.Context, ends func()) {
		assert.ErrorIs(t, inner.Run(ctx, func(ctx context.Context) error {
			ends()
			<-ctx.Done()
			return mine
		}), mine)
	}
	outer := election.New(c, "outer", "o")
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	require.ErrorIs(t, outer.Run(ctx, func(ctx context.Context) error {
		runs(ctx, outer.Resign)
		cancel(enough)
		return nil
	}), enough)
	ctx, end := context.WithCancel(t.Context())
	runs(ctx, func() {
		end()
		inner.Resign()
	})
	m := c.Mutex("around")
	require.ErrorIs(t, m.Do(t.Context(), func(ctx context.Context) error {
		runs(ctx, func() {
			s.Do("DEL", "around")
			assert.ErrorIs(t, m.Lease().Extend(ctx, time.Minute), redimutex.ErrLost)
		})
		return nil
	}), redimutex.ErrLost)
}

func TestALostLeaderStandsAgainWhenFHasReturned(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := join(t, one(s), "a", redimutex.WithTTL(time.Second))
	for n := 1; n <= 3; n++ {
		lead := a.leads(t, n)
		s.Do("DEL", key)
		<-lead.ended
		require.ErrorIs(t, lead.cause, redimutex.ErrLost)
		require.ErrorIs(t, lead.lease.Err(), redimutex.ErrLost)
	}
	assert.Greater(t, a.leads(t, 4).number, a.leads(t, 1).number)
	select {
	case <-a.over:
		t.Fatal("Run has ended with", a.err)
	default:
	}
}

func TestAnErrorOfFEndsRunAndNilDoesNot(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := join(t, one(s), "a")
	a.leads(t, 1)
	a.leave <- nil
	a.leads(t, 2)
	broken := errors.New("broken")
	a.leave <- broken
	<-a.over
	assert.Same(t, broken, a.err) //nolint:testifylint // the very error
	assert.False(t, a.IsLeader())
	assert.Empty(t, s.Get(key), "the lead was given back")
}

// The key is deleted just before f returns, so no caller can have noticed it.
func TestAnErrorOfFEndsRunThoughTheReleaseFindsTheLeadLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := election.New(newClient(t, one(s)), key, "a", redimutex.WithTTL(time.Minute))
	done, calls := errors.New("the work is done, for good"), 0
	err := e.Run(t.Context(), func(context.Context) error {
		calls++
		s.Do("DEL", key)
		return done
	})
	assert.Same(t, done, err) //nolint:testifylint // the very error
	assert.Equal(t, 1, calls)
}

func TestThePanicOfFGivesTheLeadBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := election.New(newClient(t, one(s)), key, "a")
	assert.PanicsWithValue(t, "oh", func() {
		_ = e.Run(t.Context(), func(context.Context) error { panic("oh") })
	})
	assert.False(t, e.IsLeader())
	assert.Empty(t, s.Get(key))
}

func TestRunEndsWithTheCauseOfItsCtx(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := join(t, one(s), "a"), (*candidate)(nil)
	a.leads(t, 1)
	b = join(t, one(s), "b")
	waiting(t, s, 1)
	bye := errors.New("bye")
	b.stop(bye)
	<-b.over
	require.ErrorIs(t, b.err, bye, "in line")
	a.stop(bye)
	<-a.over
	require.ErrorIs(t, a.err, context.Canceled, "leading: what f returned")
	require.ErrorIs(t, a.led()[0].cause, bye)
	redistest.Wait(t, "the lead is given back, also by b, which may have been handed it", func() bool {
		return s.Get(key) == ""
	})
}

func TestIsLeaderAsksNoServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := join(t, one(s), "a", redimutex.WithTTL(time.Minute))
	a.leads(t, 1)
	s.Pause()
	defer s.Resume()
	for range 1000 {
		require.True(t, a.IsLeader(), "it leads, and a server that hangs can't say so")
	}
}

func TestTheTermIsTheFenceAndReachesDerivedContexts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := join(t, one(s), "a")
	lead := a.leads(t, 1)
	derived, cancel := context.WithCancel(lead.ctx)
	defer cancel()
	assert.Equal(t, lead.lease.Fence(), election.Term(derived))
	assert.Equal(t, election.Leader{Owner: "a", Term: lead.lease.Fence()}, leader(t, a.Election))
	assert.Zero(t, election.Term(t.Context()))
}

// A lost MutexAll of the same Client stays in Locks until a renewal notices the loss. Its TTL is not that of the leader.
func TestALeaderTellsItsOwnTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, one(s), redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10*time.Second))
	several := c.MutexAll([]string{key, "other"}, redimutex.WithTTL(time.Hour))
	for range 20 { // Locks returns the two in any order
		several.Lock()
		s.Do("DEL", key)
		err := election.New(c, key, "a").Run(t.Context(), func(ctx context.Context) error {
			assert.Equal(t, fmt.Sprintf("%d %d %s", election.Term(ctx), time.Minute.Milliseconds(), s.Get(key)), s.Get(server.TermKey(key)))
			return errors.New("enough")
		})
		require.EqualError(t, err, "enough")
		require.ErrorIs(t, several.UnlockContext(t.Context()), redimutex.ErrLost)
	}
}

func TestALeaderMayHaveTheLongestTTL(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "can't keep a key for 300 years")
	a := join(t, one(redistest.Start(t)), "a", redimutex.WithTTL(100*365*24*time.Hour))
	assert.Equal(t, a.leads(t, 1).number, leader(t, a.Election).Term)
}

// The timer that ends the ctx of a hold is late: a little here, and by much in a process that was stopped.
func TestTheCtxOfALeaderGoesByTheClock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, one(s))
	e := election.New(c, key, "a", redimutex.WithTTL(20*time.Millisecond), redimutex.WithoutRenewal())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	terms := 0
	err := e.Run(ctx, func(ctx context.Context) error {
		if terms++; terms > 20 {
			cancel()
			return nil
		}
		for now := time.Now(); ; now = time.Now() { // read before Locks: the lease of a hand-off is extended meanwhile
			if held := c.Locks(); len(held) == 0 || !now.Before(held[0].Until) {
				break
			}
		}
		assert.Error(t, ctx.Err(), "the validity is over, and the ctx goes on")
		assert.False(t, e.IsLeader())
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
}

func TestRunOfARunningCandidatePanics(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := join(t, one(s), "a")
	a.leads(t, 1)
	assert.PanicsWithValue(t, "election: Run is running already; make an Election for each candidate", func() {
		_ = a.Run(t.Context(), func(context.Context) error { return nil })
	})
	assert.PanicsWithValue(t, "election: Run needs a function, and got nil", func() { _ = a.Run(t.Context(), nil) })
	assert.PanicsWithValue(t, "election: a zero Election has no server: make it by New", func() { _, _ = new(election.Election).Leader(t.Context()) })
	assert.PanicsWithValue(t, "election: the Client is nil", func() { election.New(nil, key, "a") })
}

func TestRunInsideADoOfTheSameLockSaysSo(t *testing.T) {
	t.Parallel()
	c := newClient(t, one(redistest.Start(t)), redimutex.WithReentrancy())
	err := c.Mutex(key).Do(t.Context(), func(ctx context.Context) error {
		return election.New(c, key, "inner").Run(ctx, func(context.Context) error {
			t.Error("it leads by the lock of another candidate")
			return errors.New("enough")
		})
	})
	require.ErrorContains(t, err, "use another ctx")
}

func TestWhatTheServerRefusesEndsRun(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("HSET", key, "no", "lock")
	e := election.New(newClient(t, one(s)), key, "a")
	err := e.Run(t.Context(), func(context.Context) error { return nil })
	var node *redimutex.NodeError
	require.ErrorAs(t, err, &node)
	require.NotErrorIs(t, err, redimutex.ErrUnavailable)
	_, err = e.Leader(t.Context())
	require.ErrorAs(t, err, &node)
	require.NotErrorIs(t, err, redimutex.ErrUnavailable)
	assert.ErrorContains(t, err, "WRONGTYPE")
}

// Two of four servers are no majority, but without them no majority is possible.
func TestWhatHalfOfTheServersRefuseEndsRun(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	servers, pools := several(t, 4)
	for _, s := range servers[:2] {
		s.Do("ACL", "SETUSER", "default", "resetkeys", "~"+key, "~redimutex:fence:*")
	}
	err := election.New(newClient(t, pools()), key, "a").Run(t.Context(), func(context.Context) error { return nil })
	require.ErrorContains(t, err, "NOPERM")
	require.NotErrorIs(t, err, redimutex.ErrUnavailable)
}

func TestAClosedClientEndsRun(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := join(t, one(s), "a")
	lead := a.leads(t, 1)
	require.NoError(t, a.client.Close())
	<-a.over
	require.ErrorIs(t, a.err, redimutex.ErrClosed)
	require.ErrorIs(t, lead.cause, redimutex.ErrClosed)
}

func TestACandidateOfASharedClientIsToldTheLeadersName(t *testing.T) {
	t.Parallel()
	c := newClient(t, one(redistest.Start(t)))
	leads, leave, over := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		over <- election.New(c, key, "alice").Run(t.Context(), func(context.Context) error {
			close(leads)
			<-leave
			return errors.New("enough")
		})
	}()
	<-leads
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := election.New(c, key, "bob").Run(ctx, func(context.Context) error { return nil })
	var locked *redimutex.LockedError
	require.ErrorAs(t, err, &locked)
	assert.Equal(t, "alice", locked.Owner)
	close(leave)
	assert.EqualError(t, <-over, "enough")
}
