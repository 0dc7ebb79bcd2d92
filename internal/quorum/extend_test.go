package quorum_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
)

func TestEachLeaseOfABatchHasItsOwnOutcome(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		var batch []*quorum.Extension
		var outs []*quorum.Extended
		for i := range 60 {
			k := try(fmt.Sprint("k", i))
			k.TTL += time.Duration(i) * time.Second
			x, out := extending(k)
			batch, outs = append(batch, x), append(outs, out)
			switch i % 4 {
			case 0:
				c.set(k.Key, k.Token, 0, 1, 2, 3, 4)
			case 1:
				c.set(k.Key, k.Token, 1, 2, 4)
			case 2:
				c.set(k.Key, k.Token, 0, 1)
			case 3:
				c.set(k.Key, k.Token, 0, 1)
				c.set(k.Key, "other", 2, 3, 4)
			}
		}
		sent := time.Now()
		c.q.Extend(t.Context(), batch)
		for i, out := range outs {
			switch i % 4 {
			case 2:
				failed(t, out.Failure, quorum.Missing)
			case 3:
				failed(t, out.Failure, quorum.Taken)
			default:
				won(t, out.Failure)
				assert.Equal(t, sent.Add(batch[i].TTL-quorum.Drift(batch[i].TTL)), out.Until)
			}
		}
		synctest.Wait()
		assert.Equal(t, batch[4].TTL, c.nodes[3].left(batch[4].Key))
	})
}

// One lease waits for its replicas, or for a node of a cluster that hangs: the others do not.
func TestALeaseIsToldAsSoonAsItIsDecided(t *testing.T) {
	for _, n := range []int{1, 3} {
		virtual(t, n, func(t *testing.T, c *cluster) {
			quick, slowly := try("quick"), try("slow")
			for i := range n {
				c.set("quick", quick.Token, i)
				c.set("slow", slowly.Token, i)
				c.on(only("extend slow", slow(100*time.Millisecond)), i)
			}
			began := time.Now()
			told := map[string]time.Duration{}
			batch := []*quorum.Extension{ignored(slowly), ignored(quick)}
			done := make(chan string, 2)
			for _, x := range batch {
				x.Done = func(e quorum.Extended) {
					won(t, e.Failure)
					done <- x.Key
				}
			}
			go func() {
				for range 2 {
					told[<-done] = time.Since(began)
				}
			}()
			c.q.Extend(t.Context(), batch)
			assert.Equal(t, 100*time.Millisecond, time.Since(began))
			synctest.Wait()
			assert.Equal(t, map[string]time.Duration{"quick": 0, "slow": 100 * time.Millisecond}, told)
		})
	}
}

func TestHungServersDoNotDelayAnExtension(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		k := try("k")
		c.set("k", k.Token, 0, 1, 2, 3, 4)
		c.on(hung, 0, 1)
		began := time.Now()
		x, out := extending(k)
		c.q.Extend(t.Context(), []*quorum.Extension{x})
		won(t, out.Failure)
		assert.Zero(t, time.Since(began))

		c.on(hung, 2)
		time.Sleep(time.Second)
		began = time.Now()
		x, out = extending(k)
		c.q.Extend(t.Context(), []*quorum.Extension{x})
		failed(t, out.Failure, quorum.Unavailable)
		assert.LessOrEqual(t, time.Since(began), timeout*9/8)
	})
}

func TestAnswersAfterTheDecisionCountForNothing(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k := try("k")
		c.set("k", k.Token, 0, 1, 2)
		c.on(slow(timeout/2), 2)
		for range 5 {
			x, out := extending(k) // panics when Done is called again
			c.q.Extend(t.Context(), []*quorum.Extension{x})
			won(t, out.Failure)
			time.Sleep(timeout)
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout/10)
		defer cancel()
		c.on(slow(timeout/2), 0, 1)
		x, out := extending(k)
		c.q.Extend(ctx, []*quorum.Extension{x})
		failed(t, out.Failure, quorum.Unavailable)
		time.Sleep(timeout)
	})
}

func TestTheEndOfTheContextEndsEveryWait(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		mine, k := try("mine"), try("k")
		g := c.take(mine)
		synctest.Wait()
		c.on(hung, 0, 1, 2)
		for name, op := range map[string]func(context.Context) *quorum.Failure{
			"acquire": func(ctx context.Context) *quorum.Failure { _, f := c.q.Acquire(ctx, k, nil); return f },
			"extend": func(ctx context.Context) *quorum.Failure {
				x, out := extending(mine)
				c.q.Extend(ctx, []*quorum.Extension{x})
				return out.Failure
			},
			"release": func(ctx context.Context) *quorum.Failure {
				_, f := c.q.Release(ctx, releaseOf(mine), g)
				return f
			},
		} {
			time.Sleep(time.Second) // nothing is under way any more
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			began := time.Now()
			failed(t, op(ctx), quorum.Unavailable)
			assert.Equal(t, 10*time.Millisecond, time.Since(began), name)
			cancel()
		}
		c.on(nil, 0, 1, 2)
		time.Sleep(3 * time.Second)
		assert.Zero(t, c.holders(k.Lock))
		assert.Zero(t, c.holders(mine.Lock), "a release goes on after its context has ended")
	})
}

const high = int64(1) << 52

func TestAFenceIsTheHighestOfTheQuorumAndReachesAQuorum(t *testing.T) {
	for n := 2; n <= 5; n++ {
		for down := range n - n/2 {
			virtual(t, n, func(t *testing.T, c *cluster) {
				// One server has met a fence that the others have lost.
				c.nodes[0].setFence("k", high)
				for i := range down {
					c.on(cut, n-1-i)
				}
				k := try("k")
				k.Fencing = true
				// The one that knows answers first.
				for i := 1; i < n-down; i++ {
					c.on(slow(time.Millisecond), i)
				}
				g := c.take(k)
				assert.Equal(t, high+1, g.Fence)
				at := 0
				for _, f := range c.nodes {
					if f.fence("k") == high+1 {
						at++
					}
				}
				assert.GreaterOrEqual(t, at, n/2+1, "%d servers, %d down", n, down)
				c.q.Undo(releaseOf(k), g)
				time.Sleep(time.Second)
				for i := range n {
					c.on(nil, i)
				}
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
			k := try("k")
			k.Fencing = true
			g := c.take(k)
			require.Greater(t, g.Fence, last, "round %d", round)
			last = g.Fence
			_, failure := c.q.Release(t.Context(), releaseOf(k), g)
			won(t, failure)
			time.Sleep(10 * time.Millisecond)
			c.nodes[round%5].flush()
			c.nodes[(round+2)%5].flush()
		}
	})
}

func TestAFenceThatCannotBeWrittenBackIsNoLock(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].setFence("k", high)
		c.on(only("raise", cut), 1, 2)
		k := try("k")
		k.Fencing = true
		_, failure := c.q.Acquire(t.Context(), k, nil)
		failed(t, failure, quorum.Unavailable)
		c.on(nil, 1, 2)
		time.Sleep(3 * time.Second)
		assert.Zero(t, c.holders(k.Lock))
	})
}

// The write-back has what the try has left of its node timeout.
func TestATryWithAFenceTakesNoLongerThanOneWithout(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		far := slow(timeout * 3 / 5)
		c.on(far, 0, 1, 2)
		k := try("k")
		k.Fencing = true
		began := time.Now()
		_, failure := c.q.Acquire(t.Context(), k, nil)
		failed(t, failure, quorum.Unavailable)
		assert.LessOrEqual(t, time.Since(began), timeout*9/8)
	})
}
