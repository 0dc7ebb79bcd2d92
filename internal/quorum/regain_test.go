package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// regaining is an extension of what t has taken that asks those for their vote that have lost it. times is how often.
func regaining(t *server.Try, fence int64, times *int) (*quorum.Extension, *quorum.Extended) {
	x, out := extending(t)
	x.Regain = func(int) (*server.Try, int64) {
		*times++
		again := *t
		again.Regain, again.Start = true, time.Now()
		return &again, fence
	}
	return x, out
}

func TestAServerThatLostTheLockVotesAgainOnceAMajorityHasConfirmedIt(t *testing.T) {
	for name, what := range map[string]behaviour{"at once": nil, "after the others": only("extend", slow(50*time.Millisecond))} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, c *cluster) {
				k, asked := try("k"), 0
				c.set("k", k.Token, 0, 1)
				c.on(what, 2)
				x, out := regaining(k, 7, &asked)
				c.q.Extend(t.Context(), []*quorum.Extension{x})
				won(t, out.Failure)
				time.Sleep(time.Second)
				synctest.Wait()
				assert.Equal(t, 3, c.holders(k.Lock))
				assert.EqualValues(t, 7, c.nodes[2].fence("k"), "or it would give the next holder a lower one")
			})
		})
	}
}

// Another may hold the lock by now.
func TestAfterARoundThatWasMissedNobodyIsAskedToVoteAgain(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k, asked := try("k"), 0
		c.set("k", k.Token, 0)
		c.on(cut, 1)
		x, out := regaining(k, 0, &asked)
		c.q.Extend(t.Context(), []*quorum.Extension{x})
		assert.NotNil(t, out.Failure)
		synctest.Wait()
		assert.Zero(t, asked)
		assert.Equal(t, 1, c.holders(k.Lock))
	})
}

func TestAServerThatHasGivenTheLockToAnotherIsNotAskedToVoteAgain(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k, asked := try("k"), 0
		c.set("k", k.Token, 0, 1)
		c.set("k", "other", 2)
		x, out := regaining(k, 0, &asked)
		c.q.Extend(t.Context(), []*quorum.Extension{x})
		won(t, out.Failure)
		synctest.Wait()
		assert.Zero(t, asked)
		assert.Equal(t, "other", c.nodes[2].get("k"))
	})
}

func TestALockThatHasEndedMeanwhileRegainsNothing(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k := try("k")
		c.set("k", k.Token, 0, 1)
		x, out := extending(k)
		x.Regain = func(int) (*server.Try, int64) { return nil, 0 }
		c.q.Extend(t.Context(), []*quorum.Extension{x})
		won(t, out.Failure)
		synctest.Wait()
		assert.Zero(t, c.nodes[2].times("acquire"))
	})
}

func TestAServerThatDoesNotAnswerDelaysNobodyWhileItIsAskedToVoteAgain(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		var batch []*quorum.Extension
		asked := 0
		c.on(only("acquire", hung), 2)
		for _, key := range []string{"a", "b", "c"} {
			k := try(key)
			c.set(key, k.Token, 0, 1)
			x, _ := regaining(k, 0, &asked)
			batch = append(batch, x)
		}
		began := time.Now()
		c.q.Extend(t.Context(), batch)
		assert.Zero(t, time.Since(began))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, asked, "the next extension asks it again")
	})
}

// A replica drops the connection with each refusal: to ask it for each of a thousand leases would be a thousand dials.
func TestAServerThatRefusesEverybodyIsAskedOnceAndNotForEachLease(t *testing.T) {
	for said, times := range map[string]int{
		"READONLY You can't write against a read only replica.":                  1,
		"OOM command not allowed when used memory > 'maxmemory'.":                1,
		"GUARD the server started without data; it votes again in 900 ms":        3,
		"ERR the fence counter is not a number":                                  3,
		"WRONGTYPE Operation against a key holding the wrong kind of value, and": 3,
	} {
		t.Run(said, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, c *cluster) {
				var batch []*quorum.Extension
				asked := 0
				c.on(only("acquire", says(redis.Error(said))), 2)
				for _, key := range []string{"a", "b", "c"} {
					k := try(key)
					c.set(key, k.Token, 0, 1)
					x, _ := regaining(k, 0, &asked)
					batch = append(batch, x)
				}
				c.q.Extend(t.Context(), batch)
				synctest.Wait()
				assert.Equal(t, times, asked)
			})
		})
	}
}

// Its vote would stay without the fence for as long as the lock is held.
func TestAServerThatDoesNotLearnTheFenceDoesNotVoteAgain(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k, asked := try("k"), 0
		c.set("k", k.Token, 0, 1)
		c.on(only("raise", cut), 2)
		x, _ := regaining(k, 7, &asked)
		c.q.Extend(t.Context(), []*quorum.Extension{x})
		synctest.Wait()
		assert.Equal(t, 2, c.holders(k.Lock))
		c.on(nil, 2)
		x, _ = regaining(k, 7, &asked)
		c.q.Extend(t.Context(), []*quorum.Extension{x})
		synctest.Wait()
		assert.Equal(t, 3, c.holders(k.Lock))
		assert.EqualValues(t, 7, c.nodes[2].fence("k"))
	})
}

// The undo of a try that had no answer may be executed at any time, also after a vote that was regained has counted.
func TestAServerThatOwesTheAnswerToATryIsNotAskedToVoteAgain(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.on(cut, 3)
		c.on(hung, 4)
		g, failure := c.q.Acquire(t.Context(), try("k"), nil)
		won(t, failure)
		assert.False(t, g.Clean(4), "before it has answered")
		time.Sleep(time.Minute)
		for i, clean := range []bool{true, true, true, true, false} {
			assert.Equal(t, clean, g.Clean(i), "server %d", i)
		}
	})
}

// It still had the release before to do, and then it was too late for the try.
func TestAServerThatWasNotSentTheTryCanVoteAgain(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		before := try("k")
		g, failure := c.q.Acquire(t.Context(), before, nil)
		won(t, failure)
		synctest.Wait()
		c.on(hung, 2)
		released, failure := c.q.Release(t.Context(), releaseOf(before), g)
		won(t, failure)
		g, failure = c.q.Acquire(t.Context(), try("k"), released)
		won(t, failure)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, c.nodes[2].times("acquire"))
		assert.True(t, g.Clean(2))
	})
}

func TestAVoteThatMayBeUndoneDoesNotCount(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k := try("k")
		c.on(hung, 2)
		g, failure := c.q.Acquire(t.Context(), k, nil)
		won(t, failure)
		time.Sleep(time.Minute)
		c.on(nil, 2)
		c.set("k", k.Token, 0, 2) // it was executed after all
		c.on(cut, 1)
		x, out := extending(k)
		x.Won = g
		c.q.Extend(t.Context(), []*quorum.Extension{x})
		assert.NotNil(t, out.Failure, "its undo may come right after this")
		c.on(nil, 1)
		c.set("k", k.Token, 1)
		x, out = extending(k)
		x.Won = g
		c.q.Extend(t.Context(), []*quorum.Extension{x})
		won(t, out.Failure)
	})
}
