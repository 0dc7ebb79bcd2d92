package quorum_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestTheEndOfTheContextEndsEveryWait(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		mine := request("mine")
		g, err := c.q.Acquire(t.Context(), mine)
		require.NoError(t, err)
		synctest.Wait()
		c.on(hung, 0, 1, 2)
		r := request("k")
		for name, op := range map[string]func(context.Context) error{
			"acquire": func(ctx context.Context) error { _, err := c.q.Acquire(ctx, r); return err },
			"extend": func(ctx context.Context) error {
				e := quorum.Extension{Request: mine}
				c.q.Extend(ctx, []*quorum.Extension{&e})
				return e.Err
			},
			"release": func(ctx context.Context) error { return c.q.Release(ctx, mine, g) },
		} {
			time.Sleep(time.Second) // nothing is under way any more
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			began := time.Now()
			failure(t, op(ctx), quorum.Unavailable)
			assert.Equal(t, 10*time.Millisecond, time.Since(began), name)
			cancel()
		}
		c.on(nil, 0, 1, 2)
		time.Sleep(3 * time.Second)
		assert.Zero(t, c.holders(r))
		assert.Zero(t, c.holders(mine), "a release goes on after its context has ended")
	})
}

// The context ends at the very moment when the lock is won.
func TestCancellationWinsTies(t *testing.T) {
	for _, n := range []int{1, 5} {
		virtual(t, n, func(t *testing.T, c *cluster) {
			for range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var replies int
				var decisive sync.Mutex // no later reply overtakes the one that decides
				for i := range c.paths {
					c.paths[i].Set(func(run func() (any, error), _ string, _ []any) (any, error) {
						reply, err := run()
						decisive.Lock()
						defer decisive.Unlock()
						if replies++; replies == n/2+1 {
							cancel()
						}
						return reply, err
					})
				}
				r := request("k")
				_, err := c.q.Acquire(ctx, r)
				require.Error(t, err)
				for i := range c.paths {
					c.paths[i].Set(nil)
				}
				synctest.Wait()
				assert.Zero(t, c.holders(r), "a win that came too late was kept")
				time.Sleep(time.Second)
			}
		})
	}
}

func TestAFenceIsTheHighestOfTheQuorumAndReachesAQuorum(t *testing.T) {
	const high = int64(1) << 52
	for n := 2; n <= 5; n++ {
		for down := range n - n/2 {
			virtual(t, n, func(t *testing.T, c *cluster) {
				// One server has met a fence that the others have lost.
				require.NoError(t, c.nodes[0].Set(server.FenceKey("k"), fmt.Sprint(high)))
				for i := range down {
					c.on(cut, n-1-i)
				}
				r := request("k")
				r.Fencing = true
				// The one that knows answers first.
				for i := 1; i < n-down; i++ {
					c.on(slow(time.Millisecond), i)
				}
				g, err := c.q.Acquire(t.Context(), r)
				require.NoError(t, err)
				assert.Equal(t, high+1, g.Fence)
				at := 0
				for _, m := range c.nodes {
					if v, err := m.Get(server.FenceKey("k")); err == nil && v == fmt.Sprint(high+1) {
						at++
						assert.Positive(t, m.TTL(server.FenceKey("k")))
					}
				}
				assert.GreaterOrEqual(t, at, n/2+1, "%d servers, %d down", n, down)
				c.q.Sweep(r, g)
				time.Sleep(time.Second)
			})
		}
	}
}

func TestFencesRiseWhenAMinorityLosesItsData(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		last := int64(0)
		for round := range 40 {
			for i, delay := range []int{3, 1, 4, 1, 5} {
				c.on(slow(time.Duration((delay+round*(i+1))%7)*time.Millisecond), i)
			}
			r := request("k")
			r.Fencing = true
			g, err := c.q.Acquire(t.Context(), r)
			require.NoError(t, err)
			require.Greater(t, g.Fence, last, "round %d", round)
			last = g.Fence
			require.NoError(t, c.q.Release(t.Context(), r, g))
			c.nodes[round%5].FlushAll()
			c.nodes[(round+2)%5].FlushAll()
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func TestAFenceThatCannotBeWrittenBackIsNoLock(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		require.NoError(t, c.nodes[0].Set(server.FenceKey("k"), fmt.Sprint(int64(1)<<52)))
		for i := 1; i < 3; i++ {
			c.paths[i].Set(func(run func() (any, error), _ string, args []any) (any, error) {
				if len(args) > 2 && args[2] == server.FenceKey("k") { // the write-back has this key alone
					return nil, redistest.ErrCut
				}
				return run()
			})
		}
		r := request("k")
		r.Fencing = true
		_, err := c.q.Acquire(t.Context(), r)
		failure(t, err, quorum.Unavailable)
		c.on(nil, 1, 2)
		time.Sleep(3 * time.Second)
		assert.Zero(t, c.holders(r))
	})
}

func TestEachLeaseOfABatchHasItsOwnOutcome(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		var batch []*quorum.Extension
		want := make(map[*quorum.Extension]quorum.Kind)
		for i := range 60 {
			e := &quorum.Extension{Request: request(fmt.Sprint("k", i))}
			e.Request.TTL = ttl + time.Duration(i)*time.Second
			batch = append(batch, e)
			key, token := e.Request.Key, e.Request.Token
			switch i % 4 {
			case 0:
				c.set(key, token, 0, 1, 2, 3, 4)
				want[e] = -1
			case 1:
				c.set(key, token, 1, 2, 4)
				want[e] = -1
			case 2:
				c.set(key, token, 0, 1)
				want[e] = quorum.Missing
			case 3:
				c.set(key, token, 0, 1)
				c.set(key, "other", 2, 3, 4)
				want[e] = quorum.Taken
			}
		}
		sent := time.Now()
		c.q.Extend(t.Context(), batch)
		for _, e := range batch {
			if want[e] == -1 {
				require.NoError(t, e.Err)
				assert.Equal(t, sent.Add(e.Request.TTL-quorum.Drift(e.Request.TTL)), e.Until)
				continue
			}
			failure(t, e.Err, want[e])
		}
		synctest.Wait()
		assert.Equal(t, batch[4].Request.TTL, c.nodes[3].TTL(batch[4].Request.Key))
	})
}

func TestHungServersDoNotDelayAnExtension(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		e := quorum.Extension{Request: request("k")}
		c.set("k", e.Request.Token, 0, 1, 2, 3, 4)
		c.on(hung, 0, 1)
		began := time.Now()
		c.q.Extend(t.Context(), []*quorum.Extension{&e})
		require.NoError(t, e.Err)
		assert.Zero(t, time.Since(began))

		c.on(hung, 2)
		time.Sleep(time.Second)
		began = time.Now()
		c.q.Extend(t.Context(), []*quorum.Extension{&e})
		failure(t, e.Err, quorum.Unavailable)
		assert.LessOrEqual(t, time.Since(began), timeout*9/8)
	})
}
