package quorum_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A silent server is asked by one operation at a time, and takes part again as soon as it answers.
func TestSilentServersAreSkippedUntilTheyAnswer(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		var mu sync.Mutex
		asked, now, most := 0, 0, 0
		silent := func(op string, end time.Time, run func() server.Reply) server.Reply {
			if op == "undo" {
				return hung(op, end, run)
			}
			mu.Lock()
			asked++
			now++
			most = max(most, now)
			mu.Unlock()
			defer func() {
				mu.Lock()
				now--
				mu.Unlock()
			}()
			return hung(op, end, run)
		}
		pair := func() {
			k := try("k")
			g := c.take(k)
			_, failure := c.q.Release(t.Context(), releaseOf(k), g)
			won(t, failure)
			time.Sleep(10 * time.Millisecond)
		}
		c.on(silent, 1, 3)
		for range 300 { // three seconds
			pair()
		}
		mu.Lock()
		assert.Less(t, asked, 100, "of 1,200 operations")
		assert.Greater(t, asked, 10, "they are never asked again")
		assert.Less(t, most, 30)
		mu.Unlock()
		c.on(nil, 1, 3)
		time.Sleep(5 * time.Second)
		pair()
		synctest.Wait()
		k := try("k")
		c.take(k)
		synctest.Wait()
		assert.Equal(t, 5, c.holders(k.Lock), "they answer again and are still skipped")
	})
}

// When too few would remain, the silent ones are asked all the same: they may be our only chance.
func TestNobodyIsSkippedWhenTooFewWouldRemain(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(hung, 0, 1)
		for range 3 {
			_, failure := c.q.Acquire(t.Context(), try("k"), nil)
			failed(t, failure, quorum.Unavailable)
		}
		assert.Equal(t, 3, c.nodes[0].times("acquire"))
		c.on(nil, 0, 1)
		time.Sleep(ttl)
		c.take(try("k"))
	})
}

func TestCloseWaitsForWhatIsUnderWay(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(slow(timeout/2), 2)
		k := try("k")
		g := c.take(k)
		_, failure := c.q.Release(t.Context(), releaseOf(k), g)
		won(t, failure)
		began := time.Now()
		c.q.Close(time.Minute)
		assert.GreaterOrEqual(t, time.Since(began), timeout/2)
		assert.Less(t, time.Since(began), 2*timeout)
		assert.Zero(t, c.holders(k.Lock), "what the late server granted is given back before Close returns")
	})
}

// A lost try has no release: its late winner gives its vote back by itself.
func TestCloseWaitsForTheLateWinnerOfALostTry(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.set("k", "other", 0, 1)
		c.on(slow(timeout/2), 2)
		k := try("k")
		_, failure := c.q.Acquire(t.Context(), k, nil)
		failed(t, failure, quorum.Contended)
		c.q.Close(time.Minute)
		assert.Equal(t, 1, c.nodes[2].times("acquire"))
		assert.Zero(t, c.holders(k.Lock))
	})
}

func TestCloseIsBounded(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k := try("k")
		c.on(func(op string, end time.Time, run func() server.Reply) server.Reply {
			time.Sleep(ttl)
			return hung(op, end, run)
		}, 0, 1, 2)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, failure := c.q.Acquire(ctx, k, nil)
		failed(t, failure, quorum.Unavailable)
		began := time.Now()
		c.q.Close(time.Second)
		assert.LessOrEqual(t, time.Since(began), time.Second)
		c.on(nil, 0, 1, 2)
		time.Sleep(3 * ttl)
	})
}

func TestCloseOfASingleServerWaitsForWhatIsUnderWay(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *cluster) {
		c.on(slow(timeout/2), 0)
		go c.q.Acquire(t.Context(), try("k"), nil)
		synctest.Wait()
		began := time.Now()
		c.q.Close(time.Minute)
		assert.Equal(t, timeout/2, time.Since(began))
	})
}

// slowThenHung has server 0 owe an answer for so long that it is skipped, and then two others hang:
// now there is no majority without server 0, which is slow and no more.
func slowThenHung(t *testing.T, c *cluster, test func(began time.Time)) {
	t.Helper()
	synctest.Wait()
	other := try("other")
	c.on(slow(100*time.Millisecond), 0)
	g := c.take(other)
	time.Sleep(30 * time.Millisecond)
	c.on(hung, 1, 2)
	began := time.Now()
	test(began)
	assert.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond, "it was not skipped, so nothing was shown")
	assert.Less(t, time.Since(began), timeout, "the node timeout was waited for")
	c.on(nil, 0, 1, 2)
	time.Sleep(timeout)
	c.q.Undo(releaseOf(other), g)
}

func TestASlowServerThatWasSkippedIsAskedWhenAnotherHangs(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		slowThenHung(t, c, func(time.Time) {
			k := try("k")
			c.q.Undo(releaseOf(k), c.take(k))
		})
	})
	virtual(t, 5, func(t *testing.T, c *cluster) {
		k := try("k")
		g := c.take(k)
		slowThenHung(t, c, func(time.Time) {
			_, failure := c.q.Release(t.Context(), releaseOf(k), g)
			won(t, failure)
		})
		time.Sleep(ttl / 2)
		assert.Zero(t, c.holders(k.Lock))
	})
	virtual(t, 5, func(t *testing.T, c *cluster) {
		k := try("k")
		g := c.take(k)
		slowThenHung(t, c, func(began time.Time) {
			x, out := extending(k)
			c.q.Extend(t.Context(), []*quorum.Extension{x})
			won(t, out.Failure)
			assert.Equal(t, began.Add(ttl-quorum.Drift(ttl)), out.Until)
		})
		c.q.Undo(releaseOf(k), g)
	})
}

// One of three is dead and another slow: the slow one can still make the majority, so it is asked at
// once, and not for as long as it takes only.
func TestWhoCanStillMakeTheMajorityIsAskedAtOnce(t *testing.T) {
	const far = 80 * time.Millisecond
	virtual(t, 3, func(t *testing.T, c *cluster) {
		held := try("held")
		holding := c.take(held)
		synctest.Wait()
		c.on(cut, 0)
		c.on(slow(far), 1)
		c.on(slow(10*time.Millisecond), 2) // so that nobody waits for it before the slow one is asked
		for range 10 {
			// Somebody's command is always under way on the slow server, which is why it is skipped.
			other := try("other")
			go c.q.Extend(t.Context(), []*quorum.Extension{ignored(other)})
			time.Sleep(far / 2)
			began := time.Now()
			k := try("k")
			g, failure := c.q.Acquire(t.Context(), k, nil)
			won(t, failure)
			assert.Equal(t, far, time.Since(began))

			go c.q.Extend(t.Context(), []*quorum.Extension{ignored(other)})
			time.Sleep(far / 2)
			began = time.Now()
			x, out := extending(held)
			c.q.Extend(t.Context(), []*quorum.Extension{x})
			won(t, out.Failure)
			assert.Equal(t, far, time.Since(began))

			go c.q.Extend(t.Context(), []*quorum.Extension{ignored(other)})
			time.Sleep(far / 2)
			_, failure = c.q.Release(t.Context(), releaseOf(k), g)
			won(t, failure)
			time.Sleep(time.Second)
		}
		c.on(nil, 0, 1, 2)
		c.q.Undo(releaseOf(held), holding)
	})
}

func ignored(k *server.Try) *quorum.Extension {
	x, _ := extending(k)
	return x
}

// All that were asked have answered and are not agreed, so the one that was skipped decides, now.
func TestASplitVoteIsDecidedByWhoWasSkipped(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(slow(100*time.Millisecond), 0)
		other := try("other")
		g := c.take(other)
		time.Sleep(30 * time.Millisecond)
		c.set("k", "another", 1)
		began := time.Now()
		k := try("k")
		c.q.Undo(releaseOf(k), c.take(k))
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		c.on(nil, 0)
		c.q.Undo(releaseOf(other), g)
	})
}

// A majority that holds the lock has decided: there is no need of a server that hangs.
func TestWhoWasSkippedIsNotAskedForALockThatAMajorityHolds(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.set("k", "other", 1, 2)
		c.on(hung, 0)
		c.q.Undo(releaseOf(try("another")), c.take(try("another")))
		time.Sleep(30 * time.Millisecond)
		asked := c.nodes[0].times("acquire")
		for range 10 {
			_, failure := c.q.Acquire(t.Context(), try("k"), nil)
			f := failed(t, failure, quorum.Contended)
			require.Len(t, f.Nodes, 1)
			assert.ErrorContains(t, f.Nodes[0].Err, "no answer to an earlier command")
		}
		assert.Equal(t, asked, c.nodes[0].times("acquire"))
		c.on(nil, 0)
	})
}

// What is skipped to the end of a release is given back in the background.
func TestAServerThatIsSkippedByAReleaseIsUndone(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k := try("k")
		g := c.take(k)
		synctest.Wait()
		require.Equal(t, 3, c.holders(k.Lock))
		other := try("other")
		c.on(slow(100*time.Millisecond), 0)
		late := c.take(other)
		time.Sleep(30 * time.Millisecond)
		began := time.Now()
		_, failure := c.q.Release(t.Context(), releaseOf(k), g)
		won(t, failure)
		assert.Zero(t, time.Since(began))
		assert.Zero(t, c.nodes[0].times("release"))
		c.on(nil, 0)
		time.Sleep(time.Second)
		assert.Zero(t, c.holders(k.Lock))
		c.q.Undo(releaseOf(other), late)
	})
}

// A lastTry is a closed server: what is undone there takes the caller's time.
type lastTry struct{ instant }

func (lastTry) Undo(*server.Release) <-chan struct{} {
	time.Sleep(lock("k").Timeout)
	return nil
}

func TestAnUndoAfterCloseAsksAllServersAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quorum.Of(lastTry{}, lastTry{}, lastTry{})
		q.Close(time.Minute)
		began := time.Now()
		q.Undo(releaseOf(try("k")), quorum.Grant{})
		assert.Equal(t, lock("k").Timeout, time.Since(began))
	})
}
