package quorum_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

func TestALockIsTakenOnEveryServerAndGivenBackOnEvery(t *testing.T) {
	for n := 1; n <= 7; n++ {
		virtual(t, n, func(t *testing.T, c *cluster) {
			k := try("k")
			sent := time.Now()
			g := c.take(k)
			assert.Equal(t, sent, g.At)
			assert.Equal(t, sent.Add(ttl-ttl/100-2*time.Millisecond), g.Until())
			assert.Zero(t, g.Fence)
			synctest.Wait()
			assert.Equal(t, n, c.holders(k.Lock))
			_, failure := c.q.Release(t.Context(), releaseOf(k), g)
			won(t, failure)
			synctest.Wait()
			assert.Zero(t, c.holders(k.Lock))
		})
	}
}

// Two clients never have a majority each, and more than half is enough.
func TestAMajorityIsMoreThanHalfOfTheServers(t *testing.T) {
	for n := 1; n <= 7; n++ {
		for votes := range n + 1 {
			virtual(t, n, func(t *testing.T, c *cluster) {
				for i := votes; i < n; i++ {
					c.set("k", "other", i)
				}
				k := try("k")
				g, failure := c.q.Acquire(t.Context(), k, nil)
				if 2*votes > n {
					won(t, failure)
				} else {
					failed(t, failure, quorum.Contended)
				}
				c.q.Undo(releaseOf(k), g)
				synctest.Wait()
				for i := range votes {
					c.set("k", k.Token, i)
				}
				x, out := extending(k)
				c.q.Extend(t.Context(), []*quorum.Extension{x})
				_, failure = c.q.Release(t.Context(), releaseOf(k), quorum.Grant{})
				if 2*votes > n {
					won(t, out.Failure)
					won(t, failure)
				} else {
					failed(t, out.Failure, quorum.Taken)
					failed(t, failure, quorum.Taken)
				}
			})
		}
	}
}

// The monotonic clock stands still while the machine sleeps, and the servers' clocks do not. Virtual time has one clock
// alone, so this is in real time.
func TestASleepBeforeTheAnswerShortensTheValidity(t *testing.T) {
	for _, n := range []int{1, 3} {
		asleep := func(d time.Duration) (quorum.Grant, *quorum.Failure) {
			var voters []quorum.Voter
			for range n {
				f := newFake()
				f.set(func(_ string, _ time.Time, run func() server.Reply) server.Reply {
					reply := run()
					reply.Sent = earlier(reply.Sent, d)
					return reply
				})
				voters = append(voters, f)
			}
			q := quorum.Of(voters...)
			defer q.Close(time.Minute)
			k := try("k")
			k.TTL = time.Hour // which no machine is late by
			return q.Acquire(t.Context(), k, nil)
		}
		g, failure := asleep(20 * time.Minute)
		won(t, failure)
		assert.Less(t, time.Until(g.Until()), 40*time.Minute)
		_, failure = asleep(40 * time.Minute)
		failed(t, failure, quorum.Unavailable)
	}
}

// earlier returns t with a wall reading that is d earlier, and the same monotonic one. That is how a time
// looks that was taken before the machine slept for d.
func earlier(t time.Time, d time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t)) // a flag, 33 bits of seconds, 30 bits of nanoseconds
	nanos := (*wall<<1>>31)*1e9 + *wall&(1<<30-1) - uint64(d)
	*wall = 1<<63 | nanos/1e9<<30 | nanos%1e9
	return t
}

// The validity counts from before the first of the commands was sent, so slow answers shorten it.
func TestTheValidityCountsFromBeforeTheCommandWasSent(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(slow(200*time.Millisecond), 0, 1, 2)
		sent := time.Now()
		g := c.take(try("k"))
		assert.Equal(t, 200*time.Millisecond, time.Since(sent))
		assert.Equal(t, sent.Add(ttl-quorum.Drift(ttl)), g.Until())
	})
}

func TestHungServersAreNotWaitedForWhenAMajorityHasGranted(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.on(hung, 1, 3)
		k := try("k")
		began := time.Now()
		g := c.take(k)
		_, failure := c.q.Release(t.Context(), releaseOf(k), g)
		won(t, failure)
		assert.Zero(t, time.Since(began))
	})
}

func TestHungServersAreNotWaitedForWhenAMajorityHasRefused(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.set("k", "other", 0, 2, 4)
		c.on(hung, 1, 3)
		began := time.Now()
		_, failure := c.q.Acquire(t.Context(), try("k"), nil)
		f := failed(t, failure, quorum.Contended)
		assert.Equal(t, "other", f.Holder)
		assert.Equal(t, ttl, f.Left)
		assert.Equal(t, began, f.Sent)
		assert.Equal(t, began.UnixMicro(), f.Now)
		assert.Equal(t, began.Add(timeout), f.Open, "the hung servers may still queue the ticket")
		assert.Zero(t, time.Since(began))
	})
}

func TestATryThatAllHaveAnsweredLeavesNothingOpen(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.set("k", "other", 0, 1)
		c.on(slow(time.Millisecond), 0, 1)
		_, failure := c.q.Acquire(t.Context(), try("k"), nil)
		assert.Zero(t, failed(t, failure, quorum.Contended).Open)
	})
}

func TestWithoutAMajorityTheTryEndsWithTheNodeTimeout(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.on(hung, 0, 1, 2)
		k := try("k")
		began := time.Now()
		_, failure := c.q.Acquire(t.Context(), k, nil)
		assert.Len(t, failed(t, failure, quorum.Unavailable).Nodes, 3)
		assert.Equal(t, timeout, time.Since(began))
		synctest.Wait()
		assert.Zero(t, c.holders(k.Lock), "what a minority granted is given back")
	})
}

// internal/server keeps the bound; where it did not, the caller would not wait for it.
func TestAServerThatBreaksItsBoundIsNotWaitedFor(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(func(_ string, end time.Time, _ func() server.Reply) server.Reply {
			time.Sleep(time.Until(end.Add(ttl)))
			return server.Reply{Err: errSilent}
		}, 0, 1)
		began := time.Now()
		k := try("k")
		k.Replicas.Timeout = time.Second
		_, failure := c.q.Acquire(t.Context(), k, nil)
		failed(t, failure, quorum.Unavailable)
		assert.Equal(t, (timeout+time.Second)*9/8, time.Since(began))
	})
}

func TestALateWinnerIsGivenBackByTheRelease(t *testing.T) {
	for _, delay := range []time.Duration{time.Millisecond, timeout / 2, timeout * 3 / 4} {
		virtual(t, 5, func(t *testing.T, c *cluster) {
			c.on(slow(delay), 0, 4)
			k := try("k")
			g := c.take(k)
			_, failure := c.q.Release(t.Context(), releaseOf(k), g)
			won(t, failure)
			time.Sleep(2 * time.Second)
			assert.Zero(t, c.holders(k.Lock), "delay %v: a lock that nobody owns", delay)
			assert.Equal(t, make([]int64, 5), c.q.Failures(), "its release has a bound of its own")
		})
	}
}

func TestALateWinnerOfAHeldLockStaysAndIsGivenBackInTheEnd(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.on(slow(timeout/2), 0, 4)
		k := try("k")
		ctx, cancel := context.WithCancel(t.Context())
		g, failure := c.q.Acquire(ctx, k, nil)
		won(t, failure)
		cancel() // LockContext has returned, and its ctx is over
		time.Sleep(time.Second)
		assert.Equal(t, 5, c.holders(k.Lock))
		_, failure = c.q.Release(t.Context(), releaseOf(k), g)
		won(t, failure)
		time.Sleep(time.Second)
		assert.Zero(t, c.holders(k.Lock))
	})
}

func TestALateWinnerOfALostTryIsGivenBack(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.set("k", "other", 0, 1, 2)
		c.on(slow(timeout/2), 3, 4)
		k := try("k")
		_, failure := c.q.Acquire(t.Context(), k, nil)
		failed(t, failure, quorum.Contended)
		time.Sleep(2 * time.Second)
		assert.Zero(t, c.holders(k.Lock))
		assert.Len(t, c.nodes[3].undos(), 1, "it does so by itself")
	})
}

func TestAnUndoGivesEverythingBack(t *testing.T) {
	virtual(t, 5, func(t *testing.T, c *cluster) {
		c.on(slow(timeout/2), 4)
		c.on(cut, 0)
		k := try("k")
		g := c.take(k)
		c.q.Undo(releaseOf(k), g)
		c.on(nil, 0)
		time.Sleep(3 * time.Second)
		assert.Zero(t, c.holders(k.Lock))
	})
}

// With an even number of servers two clients can get half each. Neither wins, and both give back.
func TestATieIsNobodysLock(t *testing.T) {
	for _, n := range []int{2, 4, 6} {
		virtual(t, n, func(t *testing.T, c *cluster) {
			for i := range n / 2 {
				c.set("k", "other", i)
			}
			k := try("k")
			_, failure := c.q.Acquire(t.Context(), k, nil)
			failed(t, failure, quorum.Contended)
			synctest.Wait()
			assert.Zero(t, c.holders(k.Lock), "the half that was won is kept")
			for i := range n / 2 {
				c.nodes[i].flush()
			}
			c.take(k)
		})
	}
}

func TestAGrantThatTookHalfOfTheLeaseIsGivenBack(t *testing.T) {
	for _, n := range []int{1, 3} {
		virtual(t, n, func(t *testing.T, c *cluster) {
			for i := range n {
				c.on(slow(600*time.Millisecond), i)
			}
			k := try("k")
			k.TTL, k.Timeout = time.Second, 900*time.Millisecond
			_, failure := c.q.Acquire(t.Context(), k, nil)
			assert.Len(t, failed(t, failure, quorum.Unavailable).Nodes, n)
			time.Sleep(800 * time.Millisecond)
			assert.Zero(t, c.holders(k.Lock))
		})
	}
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
				for i := range n {
					c.on(only("acquire", func(_ string, _ time.Time, run func() server.Reply) server.Reply {
						reply := run()
						decisive.Lock()
						defer decisive.Unlock()
						if replies++; replies == n/2+1 {
							cancel()
						}
						return reply
					}), i)
				}
				k := try("k")
				_, failure := c.q.Acquire(ctx, k, nil)
				failed(t, failure, quorum.Unavailable)
				synctest.Wait()
				assert.Zero(t, c.holders(k.Lock), "a win that came too late was kept")
			}
		})
	}
}

// A ctx whose deadline has passed is over, also if nobody was told yet.
func TestAWinAtTheDeadlineOfTheContextIsGivenBack(t *testing.T) {
	for _, n := range []int{1, 3} {
		virtual(t, n, func(t *testing.T, c *cluster) {
			for i := range n {
				c.on(slow(100*time.Millisecond), i)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			k := try("k")
			_, failure := c.q.Acquire(ctx, k, nil)
			failed(t, failure, quorum.Unavailable)
			time.Sleep(time.Second)
			assert.Zero(t, c.holders(k.Lock))
		})
	}
}

func TestASingleServerIsAskedOnTheCallersGoroutine(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *cluster) {
		me := goroutine()
		asked := 0
		c.on(func(_ string, _ time.Time, run func() server.Reply) server.Reply {
			asked++
			assert.Equal(t, me, goroutine())
			return run()
		}, 0)
		k, other := try("k"), try("k")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		g, failure := c.q.Acquire(ctx, k, nil)
		won(t, failure)
		_, failure = c.q.Acquire(ctx, other, nil)
		assert.Equal(t, k.Token, failed(t, failure, quorum.Contended).Holder)
		_, failure = c.q.Release(ctx, releaseOf(other), quorum.Grant{})
		failed(t, failure, quorum.Taken)
		released, failure := c.q.Release(ctx, releaseOf(k), g)
		won(t, failure)
		assert.Nil(t, released)
		_, failure = c.q.Release(ctx, releaseOf(k), g)
		failed(t, failure, quorum.Missing)
		assert.Equal(t, 5, asked)
		c.on(nil, 0)
	})
}

func TestATicketThatHasLapsedOnASingleServerIsToldAsSuch(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *cluster) {
		c.on(func(string, time.Time, func() server.Reply) server.Reply {
			return server.Reply{Verdict: server.Lapsed}
		}, 0)
		_, failure := c.q.Acquire(t.Context(), try("k"), nil)
		failed(t, failure, quorum.Lapsed)
	})
}

// Whoever comes late must not count, so it has to carry its deadline.
func TestATryOnSeveralServersIsNeverPlain(t *testing.T) {
	for n := 1; n <= 2; n++ {
		virtual(t, n, func(t *testing.T, c *cluster) {
			spied := &spy{Voter: c.nodes[0]}
			voters := []quorum.Voter{spied}
			for _, f := range c.nodes[1:] {
				voters = append(voters, f)
			}
			q := quorum.Of(voters...)
			k := try("k")
			k.Plain = true
			g, failure := q.Acquire(t.Context(), k, nil)
			won(t, failure)
			assert.Equal(t, n == 1, spied.plain)
			q.Undo(releaseOf(k), g)
			q.Close(time.Minute)
		})
	}
}

type spy struct {
	quorum.Voter
	plain bool
}

func (s *spy) Acquire(ctx context.Context, t server.Try) server.Reply {
	s.plain = t.Plain
	return s.Voter.Acquire(ctx, t)
}

func TestFailuresAreCountedForEachServer(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(cut, 1)
		c.on(hung, 2)
		_, failure := c.q.Acquire(t.Context(), try("k"), nil)
		failed(t, failure, quorum.Unavailable)
		time.Sleep(time.Second)
		assert.Equal(t, []int64{0, 1, 1}, c.q.Failures())
	})
}

func TestWhatTheCallerCutsShortIsNoFailureOfTheServer(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		c.on(func(string, time.Time, func() server.Reply) server.Reply {
			cancel()
			return server.Reply{Err: context.Canceled}
		}, 0)
		k := try("k")
		_, failure := c.q.Acquire(ctx, k, nil)
		f := failed(t, failure, quorum.Unavailable)
		require.Len(t, f.Nodes, 1)
		require.ErrorIs(t, f.Nodes[0].Err, context.Canceled)
		_, failure = c.q.Release(ctx, releaseOf(k), quorum.Grant{})
		failed(t, failure, quorum.Unavailable)
		x, out := extending(k)
		c.q.Extend(ctx, []*quorum.Extension{x})
		failed(t, out.Failure, quorum.Unavailable)
		assert.Equal(t, []int64{0}, c.q.Failures())
		c.on(nil, 0)
	})
}

// The ticket of a try that was given up may be queued after the waiter has withdrawn it.
func TestATryThatWasGivenUpSaysUntilWhenItIsOpen(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(slow(10*time.Millisecond), 0, 1)
		c.on(hung, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, failure := c.q.Acquire(ctx, try("k"), nil)
		assert.Equal(t, began.Add(timeout), failed(t, failure, quorum.Unavailable).Open)
		c.on(nil, 2)
	})
}
