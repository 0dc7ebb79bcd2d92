package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
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

const (
	ok = iota
	held
	refuses
	loads
	broken
	hangs
)

func TestWhatALostTryIsCalled(t *testing.T) {
	noPerm, loading := redis.Error("NOPERM no"), redis.Error("LOADING Redis is loading")
	for _, v := range []struct {
		nodes []int
		kind  quorum.Kind // -1: won
	}{
		{[]int{ok}, -1},
		{[]int{held}, quorum.Contended},
		{[]int{refuses}, quorum.Refused},
		{[]int{loads}, quorum.Unavailable},
		{[]int{hangs}, quorum.Unavailable},
		{[]int{ok, ok, ok, refuses, refuses}, -1},
		{[]int{ok, ok, refuses, refuses, refuses}, quorum.Refused},
		{[]int{held, held, refuses, refuses, refuses}, quorum.Refused},
		{[]int{broken, broken, refuses, refuses, refuses}, quorum.Refused},
		{[]int{ok, ok, broken, refuses, refuses}, quorum.Unavailable},
		{[]int{held, held, held, broken, broken}, quorum.Contended},
		{[]int{held, held, held, hangs, hangs}, quorum.Contended},
		{[]int{held, held, broken, broken, broken}, quorum.Unavailable},
		{[]int{ok, held, held, broken, broken}, quorum.Contended},
		{[]int{ok, ok, held, broken, hangs}, quorum.Contended},
		{[]int{ok, ok, broken, broken, hangs}, quorum.Unavailable},
		{[]int{loads, loads, loads, loads, loads}, quorum.Unavailable},
		{[]int{ok, held}, quorum.Contended},
		{[]int{ok, refuses}, quorum.Refused},
		{[]int{ok, broken}, quorum.Unavailable},
		{[]int{held, broken}, quorum.Unavailable},
	} {
		virtual(t, len(v.nodes), func(t *testing.T, c *cluster) {
			for i, how := range v.nodes {
				switch how {
				case held:
					c.set("k", "other", i)
				case refuses:
					c.on(says(noPerm), i)
				case loads:
					c.on(says(loading), i)
				case broken:
					c.on(cut, i)
				case hangs:
					c.on(hung, i)
				}
			}
			r := request("k")
			g, err := c.q.Acquire(t.Context(), r)
			if v.kind == -1 {
				require.NoError(t, err)
				c.q.Sweep(r, g)
			} else {
				f := failure(t, err, v.kind)
				named := make(map[int]bool)
				for _, n := range f.Nodes {
					require.Error(t, n.Err)
					assert.False(t, named[n.Node], "server %d is named twice", n.Node)
					named[n.Node] = true
				}
				for i, how := range v.nodes {
					if v.kind != quorum.Contended && how >= refuses {
						assert.True(t, named[i], "%v: server %d failed and is not named", v.nodes, i)
					}
					if how < refuses && named[i] {
						// The matter may have been decided before it had voted.
						assert.ErrorContains(t, f, "no answer yet")
					}
				}
				assert.NotEmpty(t, f.Error())
			}
			for i := range v.nodes {
				c.on(nil, i)
			}
			time.Sleep(3 * time.Second)
			assert.Zero(t, c.holders(r), "%v", v.nodes)
		})
	}
}

func TestWhatALostReleaseIsCalled(t *testing.T) {
	for _, v := range []struct {
		mine, others, broken, refusing int
		kind                           quorum.Kind
	}{
		{mine: 3, broken: 2, kind: -1},
		{mine: 3, others: 2, kind: -1},
		{mine: 2, kind: quorum.Missing},
		{others: 3, kind: quorum.Taken},
		{mine: 2, others: 1, kind: quorum.Taken},
		{mine: 2, broken: 3, kind: quorum.Unavailable},
		{mine: 1, broken: 2, refusing: 1, kind: quorum.Unavailable},
		{mine: 2, refusing: 3, kind: quorum.Refused},
		{kind: quorum.Missing},
	} {
		for _, extend := range []bool{false, true} {
			virtual(t, 5, func(t *testing.T, c *cluster) {
				r := request("k")
				for i := range 5 {
					switch {
					case i < v.mine:
						c.set("k", r.Token, i)
					case i < v.mine+v.others:
						c.set("k", "other", i)
					case i < v.mine+v.others+v.broken:
						c.on(cut, i)
					case i < v.mine+v.others+v.broken+v.refusing:
						c.on(says(redis.Error("NOPERM no")), i)
					}
				}
				var err error
				if extend {
					e := quorum.Extension{Request: r}
					c.q.Extend(t.Context(), []*quorum.Extension{&e})
					err = e.Err
				} else {
					err = c.q.Release(t.Context(), r, quorum.Grant{})
				}
				if v.kind == -1 {
					require.NoError(t, err)
					return
				}
				failure(t, err, v.kind)
			})
		}
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
