package quorum_test

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestSplitVotesAreGivenBack(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	c.on([]int{0}, "SET", "k", "one", "PX", 60000)
	c.on([]int{1}, "SET", "k", "two", "PX", 60000)
	v, failure := c.acquire(t.Context(), lock("k", terms()))
	failed(t, failure, quorum.Contended)
	assert.True(t, v.Spent())
	redistest.Wait(t, "its vote is given back", func() bool { return !c.servers[2].Exists("k") })
}

// The next try on a server waits for a release that is on its way there or has still to begin. With one processor, no release
// has begun when Release returns, because its ctx has ended.
func TestAReleaseIsInTheWayBeforeItIsSent(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := start(t, 5)
	l := lock("k", terms())
	v := c.take(t, l)
	redistest.Wait(t, "all votes", func() bool { return c.votes(&l) == 5 })
	c.silence(0, 1, 2, 3, 4)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	failed(t, v.Release(over, time.Now(), time.Time{}), quorum.Unavailable)
	for _, s := range c.asked {
		next := server.Claim{Lock: lock("k", terms()), Server: s}
		assert.ErrorContains(t, next.Try(over, server.Try{}).Err, "no answer to the release before")
	}
}

// The other votes give us the lock. The vote of the late server stays, and the next extension finds it.
func TestALateWinnerStaysOursAndIsFoundByTheExtension(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	won(t, release(t, c.take(t, lock("warm", terms()))))
	var v *quorum.Votes
	redistest.Wait(t, "the third vote", func() bool { // a slow machine may need several tries
		c.fronts[2].Hold(redistest.Requests)
		l := lock("k", terms())
		v = c.take(t, l)
		require.Equal(t, 2, c.votes(&l))
		c.fronts[2].Release()
		for end := time.Now().Add(2 * time.Second); c.votes(&l) < 3 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if c.votes(&l) == 3 {
			return true
		}
		won(t, release(t, v))
		return false
	})
	c.on([]int{0}, "DEL", "k")
	failure, until := c.extend(t, v)
	won(t, failure)
	assert.Greater(t, time.Until(until), ttl/2)
	won(t, release(t, v))
	c.free(t, "k")
}

func TestALostVoteIsRegainedBehindAMajorityAlone(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	c.on([]int{0, 1, 2}, "SET", server.FenceKey("k"), int64(1)<<52) // more than a server without data would begin with
	l := lock("k", terms())
	v := c.takeAll(t, l)
	c.on([]int{1}, "FLUSHALL")
	redistest.Wait(t, "the vote is regained", func() bool { // not yet, while the try has no answer
		failure, _ := c.extend(t, v)
		won(t, failure)
		for end := time.Now().Add(2 * time.Second); c.votes(&l) < 3; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				return false // a second try too soon could be executed after the following commands
			}
		}
		return true
	})
	quiet(t, v)
	fence, err := strconv.ParseInt(c.servers[1].Get(server.FenceKey("k")), 10, 64)
	require.NoError(t, err)
	assert.Equal(t, v.Fence, fence, "it is told the fence first, and makes no other: the age of the hold is read off it")

	c.on([]int{1}, "SET", "k", "another")
	failure, _ := c.extend(t, v)
	won(t, failure)
	quiet(t, v) // otherwise server 1 may be asked only when it has lost the other's lock, too
	assert.Equal(t, "another", c.servers[1].Get("k"), "nothing is taken from another")

	c.on([]int{0}, "DEL", "k")
	failure, _ = c.extend(t, v)
	failed(t, failure, quorum.Taken)
	c.on([]int{1}, "DEL", "k")
	failure, _ = c.extend(t, v)
	failed(t, failure, quorum.Missing)
	c.Close(20 * time.Second) // waits for the commands under way
	assert.Equal(t, 1, c.votes(&l), "something was regained without a majority")
}

// unfenced returns terms without a fence. A fence is raised on a server before or after the try is executed.
func unfenced() *server.Terms {
	t := terms()
	t.Fence = server.NoFence
	return t
}

// warm makes all servers answer once, each over a connection that its pool then keeps.
func (c *cluster) warm(t *testing.T) {
	t.Helper()
	l := lock("warm", unfenced())
	v := c.take(t, l)
	redistest.Wait(t, "all are known", func() bool { return c.votes(&l) == len(c.servers) })
	won(t, release(t, v))
	c.free(t, "warm")
	redistest.Wait(t, "all answers", func() bool { // a try passes over a server that still owes an answer
		return !slices.ContainsFunc(c.pools, func(p *redis.Pool) bool { return p.IdleCount() < p.ActiveCount() })
	})
}

func TestAVoteOfATryWithoutAnAnswerDoesNotCount(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	c.warm(t)
	var asked, lost bool
	c.fronts[1].Treat(func(reply bool) (treated redistest.Treatment) {
		if reply && asked && !lost {
			lost, treated.Harm = true, redistest.Silence
		}
		asked = asked || !reply
		return treated
	})
	l := lock("k", unfenced())
	v := c.takeAll(t, l)
	c.on([]int{2}, "DEL", "k")
	failure, _ := c.extend(t, v)
	require.NotNil(t, failure)
	v.ReleaseLater(time.Time{})
}

// After a round that was missed, the server may still execute the try, after another holder has had the lock there.
func TestAVoteIsNotRegainedBeforeTheTimeForTheTryIsOver(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	c.warm(t)
	q := unfenced()
	q.Timeout = 2 * time.Second
	l := lock("k", q)
	c.silence(1)
	v, late := c.take(t, l), time.Now().Add(q.Timeout)
	redistest.Wait(t, "the end of the try", func() bool { return time.Now().After(late) && c.votes(&l) == 3 })
	c.fronts[1].Break()
	c.fronts[1].Release()
	c.on([]int{1}, "DEL", "k")
	failure, _ := c.extend(t, v)
	won(t, failure)
	c.Close(20 * time.Second) // waits for the commands under way
	assert.Equal(t, 2, c.votes(&l))
}

// A server may have closed connections that were idle. They look like these.
func TestAVoteOverAConnectionInThePlaceOfABrokenOneCounts(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	c.warm(t)
	for _, front := range c.fronts {
		front.Break()
	}
	l := lock("k", terms())
	v := c.take(t, l)
	failure, _ := c.extend(t, v)
	won(t, failure)
	won(t, release(t, v))
}

func TestAServerThatDidNotAnswerTheTryVotesLater(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	c.warm(t)
	short := terms()
	short.Timeout = time.Second
	l := lock("k", short)
	c.fronts[1].Hold()
	v := c.take(t, l)
	late := time.Now().Add(short.Timeout)
	redistest.Wait(t, "the end of the time for the try", func() bool { return time.Now().After(late) })
	c.fronts[1].Release()
	redistest.Wait(t, "the third vote", func() bool {
		failure, _ := c.extend(t, v)
		won(t, failure)
		return c.votes(&l) == 3
	})
	won(t, release(t, v))
}

// If the regained vote ended earlier than the other votes, it would go to another caller.
func TestARegainedVoteLastsAsLongAsTheOthers(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	l := lock("k", terms())
	v := c.takeAll(t, l)
	c.on([]int{1}, "DEL", "k")
	c.Extend(t.Context(), []*quorum.Extension{{Votes: v, TTL: 3 * ttl, Done: func(f *quorum.Failure, _ time.Time) { won(t, f) }}})
	redistest.Wait(t, "the vote is regained", func() bool { return c.votes(&l) == 3 })
	assert.Greater(t, c.servers[1].PTTL("k"), 2*ttl)
	// A shorter extension does not shorten the other votes.
	until := time.Now().Add(2 * ttl)
	c.on([]int{1}, "DEL", "k")
	c.Extend(t.Context(), []*quorum.Extension{{Votes: v, TTL: ttl, Until: until, Done: func(f *quorum.Failure, _ time.Time) { won(t, f) }}})
	redistest.Wait(t, "the vote is regained", func() bool { return c.votes(&l) == 3 })
	assert.Greater(t, c.servers[1].PTTL("k"), ttl)
	won(t, release(t, v))
}

// The fence that is written before a vote is regained waits for the replicas, too.
func TestExtensionsAndRegainedVotesLeaveTheReplicasTheirTime(t *testing.T) {
	t.Parallel()
	q := terms()
	q.Timeout, q.Replicas = time.Second, server.Replicas{N: 1, Timeout: 20 * time.Second}
	l := lock("k", q)
	c := new(cluster)
	var slow, slower atomic.Bool
	for range 3 {
		r := redistest.Start(t)
		between := redistest.NewBetween(r.Pool())
		between.Set(func(command redistest.Command) (any, error) {
			if command.Name != "WAIT" {
				return command.Run()
			}
			if slow.Load() && r.Get("k") != l.Token || slower.Load() {
				<-time.After(q.Timeout * 3 / 2)
			}
			return int64(1), nil
		})
		c.servers, c.asked = append(c.servers, r), append(c.asked, server.New(between))
	}
	c.Quorum = quorum.New(c.asked)
	t.Cleanup(func() { c.Close(20 * time.Second) })
	v := c.takeAll(t, l)
	slow.Store(true)
	c.on([]int{1}, "DEL", "k")
	redistest.Wait(t, "the vote is regained", func() bool {
		failure, _ := c.extend(t, v)
		won(t, failure)
		return c.votes(&l) == 3
	})
	slower.Store(true)
	failure, _ := c.extend(t, v)
	won(t, failure)
}

// If the fence is not written there, the next holder might get a lower fence from that server.
func TestAVoteIsNotRegainedWhereTheFenceCantBeWritten(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	l := lock("k", terms())
	v := c.takeAll(t, l)
	answered(t, v)
	c.on([]int{1}, "DEL", "k")
	c.on([]int{1}, "SET", server.FenceKey("k"), "no number")
	failure, _ := c.extend(t, v)
	won(t, failure)
	c.Close(20 * time.Second) // waits for the commands under way
	assert.Equal(t, 2, c.votes(&l))
}

// answered waits until all servers have answered the try: a vote is not regained while the try may still be executed late.
func answered(t *testing.T, v *quorum.Votes) {
	t.Helper()
	redistest.Wait(t, "all answers", func() bool {
		all := true
		v.Each(func(claim *server.Claim) { all = all && !claim.Unknown() })
		return all
	})
}

// The lease ends in the middle of a batch of extensions.
func TestALeaseThatEndsIsNotInTheWayOfTheOthersThatAreRegained(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	var batch []*quorum.Extension
	locks := make([]server.Lock, 3)
	for i := range locks {
		locks[i] = lock(string(rune('a'+i)), terms())
		v := c.takeAll(t, locks[i])
		answered(t, v)
		batch = append(batch, &quorum.Extension{Votes: v, TTL: ttl, Done: func(f *quorum.Failure, _ time.Time) {
			if i == 0 {
				v.Each((*server.Claim).End)
			}
		}})
	}
	c.on([]int{1}, "FLUSHALL")
	c.Extend(t.Context(), batch)
	redistest.Wait(t, "the others' votes", func() bool { return c.votes(&locks[1]) == 3 && c.votes(&locks[2]) == 3 })
	for _, x := range batch {
		x.ReleaseLater(time.Time{})
	}
}

func TestAnExtensionOfALockThatHasEndedMeanwhileDoesNotCount(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	l := lock("k", terms())
	v := c.takeAll(t, l)
	all := []int{0, 1, 2}
	extended := func() (n int) {
		for _, r := range c.servers {
			if r.PTTL("k") > ttl/2 {
				n++
			}
		}
		return n
	}
	c.on(all, "PEXPIRE", "k", (ttl / 2).Milliseconds())
	redistest.Wait(t, "all know the script, not a majority alone: the next one gets no answers", func() bool {
		f, _ := c.extend(t, v)
		won(t, f)
		return extended() == len(all)
	})
	c.on(all, "PEXPIRE", "k", (ttl / 2).Milliseconds())
	c.silence(all...)
	outcome := make(chan *quorum.Failure)
	go c.Extend(t.Context(), []*quorum.Extension{{Votes: v, TTL: ttl, Done: func(f *quorum.Failure, _ time.Time) { outcome <- f }}})
	redistest.Wait(t, "a majority extends it", func() bool { return extended() > len(all)/2 })
	v.Each((*server.Claim).End)
	for _, front := range c.fronts {
		front.Release()
	}
	failed(t, redistest.Receive(t, "the outcome", outcome), quorum.Unavailable)
	won(t, release(t, v))
}

// The hasty lease has a node timeout of its own. The next lease in the batch has a longer one.
func TestALeaseIsNotGivenUpWithAnotherOfTheBatch(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	hasty := terms()
	hasty.Timeout = 2 * time.Second
	locks := []server.Lock{lock("hasty", hasty), lock("k", terms())}
	outcomes := []chan *quorum.Failure{make(chan *quorum.Failure, 1), make(chan *quorum.Failure, 1)}
	var batch []*quorum.Extension
	for i, l := range locks {
		v := c.takeAll(t, l)
		batch = append(batch, &quorum.Extension{Votes: v, TTL: ttl, Done: func(f *quorum.Failure, _ time.Time) { outcomes[i] <- f }})
	}
	for _, front := range c.fronts {
		front.Treat(func(bool) redistest.Treatment { return redistest.Treatment{Delay: hasty.Timeout} })
	}
	go c.Extend(t.Context(), batch)
	failed(t, redistest.Receive(t, "the hasty one", outcomes[0]), quorum.Unavailable)
	won(t, redistest.Receive(t, "the other", outcomes[1]))
}

// The error must not say that too few servers answered, and name only one of the three.
func TestAFailureNamesTheServersThatHaveLostTheLockToo(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	l := lock("k", terms())
	v := c.takeAll(t, l)
	c.on([]int{0}, "DEL", "k")
	c.servers[1].Kill()
	c.fronts[1].Break()
	failure, _ := c.extend(t, v)
	errs := failed(t, failure, quorum.Unavailable).Errs
	require.ErrorContains(t, errs[0], "it does not have the lock")
	require.Error(t, errs[1])
	require.NoError(t, errs[2])
	v.ReleaseLater(time.Time{})
}

func TestAFailureSaysWhatTheServersHaveSaid(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	c.on([]int{0}, "SET", "k", "one", "PX", 60_000)
	c.on([]int{1}, "SET", "k", "two", "PX", 30_000)
	_, failure := c.acquire(t.Context(), lock("k", terms()))
	assert.Equal(t, "one", failed(t, failure, quorum.Contended).Holder, "which has the most left")
	assert.Greater(t, failure.Left, 30*time.Second)

	l := lock("a", terms())
	l.Extras = &server.Extras{More: []string{"b"}}
	v := c.takeAll(t, l)
	c.on([]int{0, 2}, "SET", "b", "another")
	failure, _ = c.extend(t, v)
	assert.Equal(t, 1, failed(t, failure, quorum.Taken).Which)
	v.ReleaseLater(time.Time{})
}

// Without that refusal the caller would try again.
func TestARefusalForGoodIsAwaitedWhereOneServerIsDown(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	c.warm(t)
	c.on([]int{1, 2}, "LPUSH", "k", "no lock")
	c.servers[0].Kill()
	c.fronts[0].Break()
	c.silence(2)
	outcome := make(chan *quorum.Failure, 1)
	go func() {
		_, failure := c.acquire(context.WithoutCancel(t.Context()), lock("k", terms()))
		outcome <- failure
	}()
	select {
	case failure := <-outcome:
		t.Fatal("it has given up", failure)
	case <-time.After(terms().Timeout / 10):
	}
	c.fronts[2].Release()
	failed(t, redistest.Receive(t, "the outcome", outcome), quorum.Refused)
}

func TestALockIsValidFromItsFirstVote(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	old, l := lock("k", terms()), lock("k", terms())
	v, next := c.take(t, old), c.votesFor(l)
	c.everywhere(t, v)
	c.fronts[1].Hold(redistest.Requests)
	v.ReleaseLater(time.Time{})
	redistest.Wait(t, "it is released but for one", func() bool { return c.votes(&old) == 1 })
	c.on([]int{2}, "SET", "k", "another")
	got := make(chan *quorum.Failure)
	go func() { got <- next.Acquire(t.Context(), server.Try{Start: time.Now()}, nil, nil) }()
	redistest.Wait(t, "the first vote", func() bool { return c.votes(&l) == 1 })
	first := time.Now()
	c.fronts[1].Release()
	won(t, <-got)
	assert.LessOrEqual(t, next.Until().Sub(first), quorum.Validity(ttl))
	won(t, release(t, next))
}

func TestAMajorityIsEnoughAndAMinorityIsNot(t *testing.T) {
	t.Parallel()
	for n, most := range map[int]int{2: 0, 3: 1, 4: 1, 5: 2} {
		c := start(t, n)
		others := make([]int, most)
		for i := range others {
			others[i] = i
		}
		c.on(others, "SET", "k", "another")
		l := lock("k", terms())
		v := c.take(t, l)
		assert.Equal(t, n-most, c.votes(&l))
		assert.LessOrEqual(t, v.Valid, quorum.Validity(ttl))
		won(t, release(t, v))
		c.on(others, "DEL", "k")
		c.free(t, "k")

		c.on(append(others, n-1), "SET", "k", "another", "PX", 60000)
		v, failure := c.acquire(t.Context(), lock("k", terms()))
		assert.Equal(t, "another", failed(t, failure, quorum.Contended).Holder)
		redistest.Wait(t, "the votes that it has got are given back", func() bool { return c.votes(v.Spec()) == 0 })
	}
}

// The other servers may still give their votes.
func TestATryThatOneServerRefusesWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	c.warm(t)
	terms := terms() // the timeout is 10 s
	c.on([]int{0}, "SET", "k", "another", "PX", "60000")
	c.silence(1, 2)
	outcome := make(chan *quorum.Failure, 1)
	go func() {
		_, failure := c.acquire(context.WithoutCancel(t.Context()), lock("k", terms))
		outcome <- failure
	}()
	select {
	case failure := <-outcome:
		t.Fatal("it has given up", failure)
	case <-time.After(terms.Timeout / 7): // a split is noticed after a tenth of the timeout
	}
	c.fronts[1].Release()
	c.fronts[2].Release()
	won(t, redistest.Receive(t, "the outcome", outcome))
}

// When a majority has failed, the other servers need not answer.
func TestATryThatCantWinAnyMoreDoesNotWaitForAServerThatHangs(t *testing.T) {
	t.Parallel()
	for kind, failing := range map[quorum.Kind]func(c *cluster, i int){
		quorum.Unavailable: func(c *cluster, i int) { c.servers[i].Kill(); c.fronts[i].Break() },
		quorum.Refused:     func(c *cluster, i int) { c.on([]int{i}, "LPUSH", "k", "no lock") },
	} {
		c := start(t, 3)
		c.warm(t)
		failing(c, 0)
		failing(c, 1)
		c.silence(2)
		began := time.Now()
		_, failure := c.acquire(t.Context(), lock("k", terms()))
		failed(t, failure, kind)
		assert.Less(t, time.Since(began), terms().Timeout)
	}
}

// Clocks may run at different speeds.
func TestALeaseCountsForLessThanItsTTL(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		c := start(t, n)
		v := c.take(t, lock("k", terms()))
		assert.LessOrEqual(t, time.Until(v.Until()), quorum.Validity(ttl))
		failure, until := c.extend(t, v)
		won(t, failure)
		assert.LessOrEqual(t, time.Until(until), quorum.Validity(ttl))
	}
}

func TestTheFenceOfALockIsTheHighestOfItsVotes(t *testing.T) {
	t.Parallel()
	const high = int64(1) << 52
	for i := range 2 {
		c := start(t, 2) // both servers have to vote
		c.on([]int{i}, "SET", server.FenceKey("k"), high)
		assert.Greater(t, c.take(t, lock("k", terms())).Fence, high)
	}
}

// Callers may split the votes of the servers that answer. They must not keep these votes until the hanging servers answer.
func TestATryThatSplitsTheVotesDoesNotWaitForServersThatHang(t *testing.T) {
	t.Parallel()
	c := start(t, 5)
	terms := terms() // the timeout is 10 s
	release(t, c.take(t, lock("warm", terms)))
	c.on([]int{3, 4}, "SET", "k", "another", "PX", "60000")
	c.silence(0, 1)
	for range 3 {
		began := time.Now()
		v, failure := c.acquire(t.Context(), lock("k", terms))
		failed(t, failure, quorum.Contended)
		assert.Less(t, time.Since(began), terms.Timeout)
		redistest.Wait(t, "the vote is back", func() bool { return c.servers[2].Get("k") != v.Spec().Token })
	}
}

// The caller may have read the clock long before it accepts the hand-off.
func TestAHandOffIsAcceptedForWhatIsLeftThen(t *testing.T) {
	t.Parallel()
	v, until := new(quorum.Votes), time.Now().Add(time.Hour)
	start(t, 1).Claim(v, lock("k", terms()))
	v.Accept(until, 7)
	assert.LessOrEqual(t, v.Until().Sub(until), time.Duration(0))
	assert.EqualValues(t, 7, v.Fence)
	v.Accept(redistest.Earlier(until, 20*time.Minute), 7)
	assert.LessOrEqual(t, v.Valid, 40*time.Minute, "by the clock that has less")
}
