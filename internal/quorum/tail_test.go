package quorum_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// Unlock has returned, two servers have the release still to come, and two others go down now: only who
// waits for the release can have the lock.
func TestOurOwnReleaseNeverStandsInOurWay(t *testing.T) {
	for _, waits := range []bool{false, true} {
		virtual(t, 5, func(t *testing.T, c *cluster) {
			k := try("k")
			g := c.take(k)
			synctest.Wait()
			c.on(only("release", slow(10*time.Millisecond)), 3, 4)
			released, failure := c.q.Release(t.Context(), releaseOf(k), g)
			won(t, failure)
			require.NotNil(t, released)
			c.on(cut, 0, 1)
			tail := released
			if !waits {
				tail = nil
			}
			began := time.Now()
			next := try("k")
			g, failure = c.q.Acquire(t.Context(), next, tail)
			c.on(nil, 0, 1)
			if !waits {
				failed(t, failure, quorum.Contended)
				return
			}
			won(t, failure)
			assert.Equal(t, 10*time.Millisecond, time.Since(began))
			c.q.Undo(releaseOf(next), g)
		})
	}
}

func TestAReleaseThatAllHaveAnsweredHasNoTail(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k := try("k")
		g := c.take(k)
		c.on(slow(time.Millisecond), 0, 1, 2)
		synctest.Wait()
		released, failure := c.q.Release(t.Context(), releaseOf(k), g)
		won(t, failure)
		// All answer at one moment; who is not in yet is a matter of luck, and over at once.
		synctest.Wait()
		_, failure = c.q.Acquire(t.Context(), try("k"), released)
		won(t, failure)

		c.on(cut, 2)
		c.on(slow(time.Millisecond), 0, 1)
		c.q.Undo(releaseOf(k), quorum.Grant{})
		time.Sleep(time.Second)
		c.on(nil, 2)
		c.set("j", "ours", 0, 1)
		j := try("j")
		j.Token = "ours"
		c.on(slow(time.Millisecond), 1)
		released, failure = c.q.Release(t.Context(), releaseOf(j), quorum.Grant{})
		won(t, failure)
		assert.Nil(t, released)
		c.on(nil, 0, 1)
	})
}

// The try before has its answer still to come on one server: its late win is part of the release.
func TestTheNextTryWaitsForALateWinnerOfTheHoldBefore(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.on(slow(20*time.Millisecond), 3, 4)
		k := try("k")
		released, failure := c.q.Release(t.Context(), releaseOf(k), c.take(k))
		won(t, failure)
		time.Sleep(15 * time.Millisecond)
		require.Equal(t, 2, c.holders(k.Lock))
		c.on(hung, 0, 1)
		next := try("k")
		g, failure := c.q.Acquire(t.Context(), next, released)
		won(t, failure)
		c.on(nil, 0, 1, 3, 4)
		c.q.Undo(releaseOf(next), g)
		time.Sleep(time.Second)
		assert.Zero(t, c.holders(k.Lock))
	})
}

// The connections break, so that the release fails at once and goes on in the background.
func TestTheNextTryWaitsForAReleaseThatHasFailed(t *testing.T) {
	for _, n := range []int{1, 3} {
		virtual(t, n, func(t *testing.T, c *cluster) {
			all := []int{0, 1, 2}[:n]
			k := try("k")
			g := c.take(k)
			synctest.Wait()
			c.on(func(op string, end time.Time, run func() server.Reply) server.Reply {
				if op == "release" {
					return cut(op, end, run)
				}
				return slow(10*time.Millisecond)(op, end, run)
			}, all...)
			released, failure := c.q.Release(t.Context(), releaseOf(k), g)
			failed(t, failure, quorum.Unavailable)
			began := time.Now()
			next := try("k")
			g, failure = c.q.Acquire(t.Context(), next, released)
			won(t, failure)
			assert.Equal(t, 20*time.Millisecond, time.Since(began))
			c.on(nil, all...)
			c.q.Undo(releaseOf(next), g)
		})
	}
}

// The only server does not answer: the try ends in time.
func TestATryWaitsForAReleaseNoLongerThanItMay(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *cluster) {
		k := try("k")
		g := c.take(k)
		c.on(hung, 0)
		released, failure := c.q.Release(t.Context(), releaseOf(k), g)
		failed(t, failure, quorum.Unavailable)
		began := time.Now()
		_, failure = c.q.Acquire(t.Context(), try("k"), released)
		failed(t, failure, quorum.Unavailable)
		assert.LessOrEqual(t, time.Since(began), timeout)
		c.on(nil, 0)
	})
}

// The server is so slow that the release is left to the background. Then two others go down, and it is needed.
func TestTheNextTryWaitsForAReleaseInTheBackground(t *testing.T) {
	for name, sooner := range map[string]time.Duration{"its try is over": 100 * time.Millisecond, "its try is under way": 0} {
		virtual(t, 3, func(t *testing.T, c *cluster) {
			c.on(slow(100*time.Millisecond), 2)
			k := try("k")
			g := c.take(k)
			time.Sleep(sooner)
			if sooner > 0 {
				go c.q.Release(t.Context(), releaseOf(try("another")), quorum.Grant{}) // it owes an answer to this
			}
			time.Sleep(50 * time.Millisecond)
			released, failure := c.q.Release(t.Context(), releaseOf(k), g)
			won(t, failure)
			c.on(cut, 0)
			next := try("k")
			g, failure = c.q.Acquire(t.Context(), next, released)
			require.Nil(t, failure, name)
			c.on(nil, 0, 2)
			c.q.Undo(releaseOf(next), g)
			time.Sleep(time.Second)
			assert.Zero(t, c.holders(k.Lock))
		})
	}
}

// The server hangs, and nothing waits for it but a release in the background. Whoever waits for that is one operation
// that waits for the server, so that the next ones skip it.
func TestThoseThatWaitForAReleaseInTheBackgroundAreFew(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k := try("k")
		g := c.take(k)
		synctest.Wait()
		c.on(hung, 2)
		_, failure := c.q.Release(t.Context(), releaseOf(try("another")), quorum.Grant{})
		failed(t, failure, quorum.Missing)
		time.Sleep(timeout / 2)
		released, failure := c.q.Release(t.Context(), releaseOf(k), g)
		won(t, failure)
		time.Sleep(timeout * 3 / 4)                                                            // the operation on the other lock is over
		count := func() int { return runtime.NumGoroutine() - int(c.nodes[2].running.Load()) } // but for those of the fake
		before := count()
		c.on(slow(time.Millisecond), 0, 1)
		for range 40 {
			next := try("k")
			g, failure := c.q.Acquire(t.Context(), next, released)
			won(t, failure)
			released, failure = c.q.Release(t.Context(), releaseOf(next), g)
			won(t, failure)
		}
		assert.LessOrEqual(t, count(), before+5)
		c.on(nil, 0, 1, 2)
	})
}

// A release that hangs is waited for no longer than a try may take, and the others do not wait for it.
func TestAHungReleaseDoesNotHoldTheNextTryBack(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k := try("k")
		g := c.take(k)
		synctest.Wait()
		c.on(hung, 2)
		released, failure := c.q.Release(t.Context(), releaseOf(k), g)
		won(t, failure)
		began := time.Now()
		next := try("k")
		_, failure = c.q.Acquire(t.Context(), next, released)
		won(t, failure)
		assert.Zero(t, time.Since(began))

		c.on(hung, 1)
		_, failure = c.q.Acquire(t.Context(), try("j"), released)
		failed(t, failure, quorum.Unavailable)
		assert.LessOrEqual(t, time.Since(began), timeout*9/8)
		c.on(nil, 1, 2)
	})
}

func TestAWaitForTheReleaseBeforeEndsWithTheContext(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k := try("k")
		g := c.take(k)
		synctest.Wait()
		c.on(hung, 0, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		released, failure := c.q.Release(ctx, releaseOf(k), g)
		failed(t, failure, quorum.Unavailable)
		c.on(nil, 0, 1, 2)
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		next := try("k")
		began := time.Now()
		_, failure = c.q.Acquire(ctx, next, released)
		failed(t, failure, quorum.Unavailable)
		assert.Equal(t, 10*time.Millisecond, time.Since(began))
		time.Sleep(time.Second)
		assert.Zero(t, c.nodes[0].times("acquire")-1, "nobody wants the lock any more")
		assert.Zero(t, c.holders(k.Lock))
	})
}

// The tries that wait for one release after another must not add up, nor be forgotten on the way.
func TestATailIsHandedOnByWhoNeverAskedTheServer(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k := try("k")
		g := c.take(k)
		synctest.Wait()
		c.on(only("release", slow(timeout/2)), 2)
		released, failure := c.q.Release(t.Context(), releaseOf(k), g)
		won(t, failure)
		for range 60 {
			next := try("k")
			g, failure = c.q.Acquire(t.Context(), next, released)
			won(t, failure)
			released, failure = c.q.Release(t.Context(), releaseOf(next), g)
			won(t, failure)
			require.NotNil(t, released)
			time.Sleep(time.Millisecond)
		}
		assert.Less(t, c.nodes[2].times("acquire"), 3)
		c.on(hung, 0)
		last := try("k")
		g, failure = c.q.Acquire(t.Context(), last, released)
		won(t, failure)
		c.on(nil, 0, 2)
		c.q.Undo(releaseOf(last), g)
	})
}

// A server whose try is still under way can make the majority of the release as well as another.
func TestALateWinnerCountsForTheRelease(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(slow(10*time.Millisecond), 2)
		k := try("k")
		g := c.take(k)
		c.on(hung, 1)
		began := time.Now()
		_, failure := c.q.Release(t.Context(), releaseOf(k), g)
		won(t, failure)
		assert.Equal(t, 20*time.Millisecond, time.Since(began))
		c.on(nil, 1, 2)
		time.Sleep(time.Second)
		assert.Zero(t, c.holders(k.Lock))
	})
}

// Many holds pass while one command is under way to a far server: it is asked for few of them.
func TestAFarServerIsNotAskedForHoldsThatAreOver(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(slow(time.Millisecond), 0, 1)
		c.on(slow(50*time.Millisecond), 2)
		var tail *quorum.Tail
		most := 0
		for range 60 {
			k := try("k")
			g, failure := c.q.Acquire(t.Context(), k, tail)
			won(t, failure)
			released, failure := c.q.Release(t.Context(), releaseOf(k), g)
			won(t, failure)
			tail = released
			most = max(most, runtime.NumGoroutine())
		}
		assert.Less(t, c.nodes[2].times("acquire"), 100)
		assert.Less(t, most, 300, "goroutines pile up")
		time.Sleep(time.Second)
		assert.Empty(t, c.nodes[2].get("k"))
	})
}
