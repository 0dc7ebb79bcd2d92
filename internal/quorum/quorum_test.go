package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

var never = context.Background()

func TestALockIsTakenOnEveryServerAndGivenBackOnEvery(t *testing.T) {
	for n := 1; n <= 7; n++ {
		virtual(t, n, func(t *testing.T, c *cluster) {
			r := request("k")
			sent := time.Now()
			g, err := c.q.Acquire(t.Context(), r)
			require.NoError(t, err)
			assert.Equal(t, sent.Add(ttl-ttl/100-2*time.Millisecond), g.Until)
			assert.Zero(t, g.Fence)
			synctest.Wait()
			assert.Equal(t, n, c.holders(r))
			require.NoError(t, c.q.Release(t.Context(), r, g))
			synctest.Wait()
			assert.Zero(t, c.holders(r))
		})
	}
}

// The validity counts from before the first of the commands was sent, so slow answers shorten it.
func TestTheValidityCountsFromBeforeTheCommandWasSent(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(slow(200*time.Millisecond), 0, 1, 2)
		sent := time.Now()
		g, err := c.q.Acquire(t.Context(), request("k"))
		require.NoError(t, err)
		assert.Equal(t, 200*time.Millisecond, time.Since(sent))
		assert.Equal(t, sent.Add(ttl-quorum.Drift(ttl)), g.Until)
	})
}

func TestHungServersAreNotWaitedForWhenAMajorityHasGranted(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.on(hung, 1, 3)
		r := request("k")
		began := time.Now()
		g, err := c.q.Acquire(t.Context(), r)
		require.NoError(t, err)
		require.NoError(t, c.q.Release(t.Context(), r, g))
		assert.Zero(t, time.Since(began))
	})
}

func TestHungServersAreNotWaitedForWhenAMajorityHasRefused(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.set("k", "other", 0, 2, 4)
		c.on(hung, 1, 3)
		began := time.Now()
		_, err := c.q.Acquire(t.Context(), request("k"))
		f := failure(t, err, quorum.Contended)
		assert.Equal(t, "other", f.Holder)
		assert.Equal(t, ttl, f.Left)
		assert.Zero(t, time.Since(began))
	})
}

func TestWithoutAMajorityTheTryEndsWithTheNodeTimeout(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.on(hung, 0, 1, 2)
		r := request("k")
		began := time.Now()
		_, err := c.q.Acquire(t.Context(), r)
		f := failure(t, err, quorum.Unavailable)
		assert.Len(t, f.Nodes, 3)
		assert.LessOrEqual(t, time.Since(began), timeout*9/8)
		synctest.Wait()
		assert.Zero(t, c.holders(r), "what a minority granted is given back")
	})
}

func TestALateWinnerIsGivenBackByTheRelease(t *testing.T) {
	for _, delay := range []time.Duration{time.Millisecond, timeout / 2, timeout * 3 / 4} {
		virtual(t, 5, func(t *testing.T, c *cluster) {
			c.on(slow(delay), 0, 4)
			r := request("k")
			g, err := c.q.Acquire(t.Context(), r)
			require.NoError(t, err)
			require.NoError(t, c.q.Release(t.Context(), r, g))
			time.Sleep(2 * time.Second)
			assert.Zero(t, c.holders(r), "delay %v: a lock that nobody owns", delay)
		})
	}
}

func TestALateWinnerOfAHeldLockStaysAndIsGivenBackInTheEnd(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.on(slow(timeout/2), 0, 4)
		r := request("k")
		g, err := c.q.Acquire(t.Context(), r)
		require.NoError(t, err)
		time.Sleep(time.Second)
		assert.Equal(t, 5, c.holders(r))
		require.NoError(t, c.q.Release(t.Context(), r, g))
		time.Sleep(time.Second)
		assert.Zero(t, c.holders(r))
	})
}

func TestALateWinnerOfALostTryIsGivenBack(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.set("k", "other", 0, 1, 2)
		c.on(slow(timeout/2), 3, 4)
		r := request("k")
		_, err := c.q.Acquire(t.Context(), r)
		failure(t, err, quorum.Contended)
		time.Sleep(2 * time.Second)
		assert.Zero(t, c.holders(r))
	})
}

func TestASweepGivesEverythingBack(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.on(slow(timeout/2), 4)
		c.on(cut, 0)
		r := request("k")
		g, err := c.q.Acquire(t.Context(), r)
		require.NoError(t, err)
		c.q.Sweep(r, g)
		c.on(nil, 0)
		time.Sleep(3 * time.Second)
		assert.Zero(t, c.holders(r))
	})
}

// With an even number of servers two clients can get half each. Neither wins, and both give back.
func TestATieIsNobodysLock(t *testing.T) {
	for _, n := range []int{2, 4, 6} {
		virtual(t, n, func(t *testing.T, c *cluster) {
			for i := range n / 2 {
				c.set("k", "other", i)
			}
			r := request("k")
			_, err := c.q.Acquire(t.Context(), r)
			failure(t, err, quorum.Contended)
			synctest.Wait()
			assert.Zero(t, c.holders(r), "the half that was won is kept")
			for i := range n / 2 {
				c.nodes[i].Del("k")
			}
			_, err = c.q.Acquire(t.Context(), r)
			require.NoError(t, err)
		})
	}
}

func TestAGrantThatTookHalfOfTheLeaseIsGivenBack(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(slow(600*time.Millisecond), 0, 1, 2)
		r := request("k")
		r.TTL, r.Timeout = time.Second, 900*time.Millisecond
		_, err := c.q.Acquire(t.Context(), r)
		failure(t, err, quorum.Unavailable)
		time.Sleep(900 * time.Millisecond)
		assert.Zero(t, c.holders(r))
	})
}

func TestASingleServerIsAskedWithoutARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, pool := redistest.Virtual(t)
		q := quorum.New([]server.Pool{pool})
		defer q.Close(time.Minute)
		for range 3 { // the first time there is no idle connection
			r, other := request("k"), request("k")
			sent := time.Now()
			g, err := q.Acquire(never, r)
			require.NoError(t, err)
			assert.Equal(t, sent.Add(ttl-quorum.Drift(ttl)), g.Until)
			_, err = q.Acquire(never, other)
			f := failure(t, err, quorum.Contended)
			assert.Equal(t, r.Token, f.Holder)
			failure(t, q.Release(never, other, quorum.Grant{}), quorum.Taken)
			require.NoError(t, q.Release(never, r, g))
			failure(t, q.Release(never, r, g), quorum.Missing)
			synctest.Wait()
			assert.False(t, m.Exists("k"))
		}
		_, err := m.Push("k", "a list")
		require.NoError(t, err)
		_, err = q.Acquire(never, request("k"))
		assert.Len(t, failure(t, err, quorum.Refused).Nodes, 1)
	})
}
