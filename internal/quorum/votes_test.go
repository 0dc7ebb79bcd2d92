package quorum_test

import (
	"context"
	"strconv"
	"testing"
	"time"

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
	assert.True(t, v.Any((*server.Claim).Spent))
	redistest.Wait(t, "its vote is given back", func() bool { return !c.servers[2].Exists("k") })
}

func TestAMinorityThatIsSilentCostsNothing(t *testing.T) {
	t.Parallel()
	c := start(t, 5)
	won(t, release(t, c.take(t, lock("warm", terms()))))
	c.silence(1, 3)
	for range 20 {
		v := c.take(t, lock("k", terms()))
		out := c.extend(t, v)
		won(t, out.Failure)
		won(t, release(t, v))
		redistest.Wait(t, "the next try finds nothing of this one", func() bool {
			return c.servers[0].Get("k") == "" && c.servers[2].Get("k") == "" && c.servers[4].Get("k") == ""
		})
	}
}

func TestAMajorityThatIsSilentIsNoLock(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	short := terms()
	short.Timeout = time.Second
	c.silence(0, 1)
	v, failure := c.acquire(t.Context(), lock("k", short))
	failed(t, failure, quorum.Unavailable)
	assert.Zero(t, v.Valid)
	c.fronts[0].Release()
	c.fronts[1].Release()
	c.free(t, "k")
}

// The lock is ours by the other votes. What the late server gave stays, and the next extension finds it.
func TestALateWinnerStaysOursAndIsFoundByTheExtension(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	won(t, release(t, c.take(t, lock("warm", terms()))))
	c.fronts[2].Hold(redistest.Requests)
	l := lock("k", terms())
	v := c.take(t, l)
	require.Equal(t, 2, c.votes(&l))
	c.fronts[2].Release()
	redistest.Wait(t, "the third vote", func() bool { return c.votes(&l) == 3 })
	c.on([]int{0}, "DEL", "k")
	out := c.extend(t, v)
	won(t, out.Failure)
	assert.Greater(t, time.Until(out.Until), ttl/2)
	won(t, release(t, v))
	c.free(t, "k")
}

func TestALostVoteIsRegainedBehindAMajorityAlone(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	c.on([]int{0, 1, 2}, "SET", server.FenceKey("k"), int64(1)<<52) // more than a server without data would begin with
	l := lock("k", terms())
	v := c.take(t, l)
	redistest.Wait(t, "all votes", func() bool { return c.votes(&l) == 3 })
	c.on([]int{1}, "FLUSHALL")
	won(t, c.extend(t, v).Failure)
	redistest.Wait(t, "the vote is regained", func() bool { return c.votes(&l) == 3 })
	fence, err := strconv.ParseInt(c.servers[1].Get(server.FenceKey("k")), 10, 64)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, fence, v.Fence, "it is told the fence first")

	c.on([]int{1}, "SET", "k", "another")
	won(t, c.extend(t, v).Failure)
	assert.Equal(t, "another", c.servers[1].Get("k"), "nothing is taken from another")

	c.on([]int{0}, "DEL", "k")
	failed(t, c.extend(t, v).Failure, quorum.Taken)
	c.on([]int{1}, "DEL", "k")
	failed(t, c.extend(t, v).Failure, quorum.Missing)
	c.Close(20 * time.Second) // waits for what is under way
	assert.Equal(t, 1, c.votes(&l), "something was regained without a majority")
}

func TestAVoteOfATryWithoutAnAnswerDoesNotCount(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	l, warm := lock("k", terms()), lock("warm", terms())
	v := c.take(t, warm)
	redistest.Wait(t, "all are known", func() bool { return c.votes(&warm) == 3 })
	won(t, release(t, v))
	c.silence(1)
	v = c.take(t, l)
	redistest.Wait(t, "all votes", func() bool { return c.votes(&l) == 3 })
	c.fronts[1].Cut()
	c.fronts[1].Release()
	c.on([]int{2}, "DEL", "k")
	require.NotNil(t, c.extend(t, v).Failure)
	v.ReleaseLater(time.Time{})
}

func TestALockIsValidFromItsFirstVote(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	var before quorum.Before
	old, l := lock("k", terms()), lock("k", terms())
	v, next := c.take(t, old), c.votesFor(l)
	redistest.Wait(t, "all votes", func() bool { return c.votes(&old) == 3 })
	c.fronts[1].Hold(redistest.Requests)
	v.ReleaseLater(time.Time{})
	before.Add(v, func() {})
	redistest.Wait(t, "it is released but for one", func() bool { return c.votes(&old) == 1 })
	c.on([]int{2}, "SET", "k", "another")
	got := make(chan *quorum.Failure)
	go func() { got <- next.Acquire(t.Context(), server.Try{}, &before, nil) }()
	redistest.Wait(t, "the first vote", func() bool { return c.votes(&l) == 1 })
	first := time.Now()
	c.fronts[1].Release()
	won(t, <-got)
	assert.LessOrEqual(t, next.Until().Sub(first), ttl-quorum.Drift(ttl))
	won(t, release(t, next))
}

func TestTheFenceIsWrittenBackAndRisesWhateverMajorityVotes(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	const high = int64(1) << 52
	c.on([]int{0}, "SET", server.FenceKey("k"), high)
	last := int64(0)
	for _, out := range []int{1, 2, 0, 1} {
		c.on([]int{out}, "SET", "k", "another", "PX", 60000)
		v := c.take(t, lock("k", terms()))
		assert.Greater(t, v.Fence, last)
		last = v.Fence
		won(t, release(t, v))
		c.on([]int{out}, "DEL", "k")
		c.free(t, "k")
	}
	assert.Greater(t, last, high)
	redistest.Wait(t, "all know it", func() bool { // one that was slow to answer is passed over, until the next hold
		for _, s := range c.servers {
			if s.Get(server.FenceKey("k")) != strconv.FormatInt(last, 10) {
				v := c.take(t, lock("k", terms()))
				last = v.Fence
				won(t, release(t, v))
				return false
			}
		}
		return true
	})
}

// Else our own release, which is on its way to a server, would cost the next hold the vote of it.
func TestTheNextHoldWaitsForTheReleaseBefore(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	first := c.take(t, lock("k", terms()))
	redistest.Wait(t, "all votes", func() bool { return c.votes(first.Lock()) == 3 })
	c.fronts[2].Hold(redistest.Requests)
	won(t, release(t, first))
	var before quorum.Before
	before.Add(first, func() {})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	before.Wait(ctx, time.Now().Add(time.Minute))
	require.Error(t, ctx.Err(), "the release is on its way")

	l := lock("k", terms())
	next := c.votesFor(l)
	won(t, next.Acquire(t.Context(), server.Try{}, &before, nil))
	assert.Equal(t, 2, c.votes(&l))
	c.fronts[2].Release()
	before.Wait(t.Context(), time.Now().Add(time.Minute))
	redistest.Wait(t, "an extension gets the third vote", func() bool {
		won(t, c.extend(t, next).Failure)
		return c.votes(&l) == 3
	})
	won(t, release(t, next))
}

func TestOurOwnReleaseDoesNotStandInOurWay(t *testing.T) {
	t.Parallel()
	c := start(t, 1)
	var before quorum.Before
	v := c.take(t, lock("k", terms()))
	for range 20 {
		c.fronts[0].Hold(redistest.Requests)
		v.ReleaseLater(time.Time{})
		before.Add(v, func() {})
		v = c.votesFor(lock("k", terms()))
		got := make(chan *quorum.Failure)
		go func() { got <- v.Acquire(t.Context(), server.Try{}, &before, nil) }()
		c.fronts[0].Release()
		won(t, <-got)
	}
	won(t, release(t, v))
}

func TestAVoteThatComesAfterTheEndDoesNotCount(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	v := c.take(t, lock("k", terms()))
	v.Each((*server.Claim).End)
	require.NotNil(t, c.extend(t, v).Failure)
	won(t, release(t, v))
	c.free(t, "k")
}

// A tied is a ctx that is over as soon as that is so, and has not told anyone yet.
type tied struct {
	context.Context
	ended func() bool
}

func (c tied) Err() error {
	if c.ended() {
		return context.Canceled
	}
	return c.Context.Err()
}

func TestCancellationWinsTies(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, n := range []int{1, 3} {
		c := start(t, n)
		for _, before := range []bool{true, false} {
			l := lock("k", terms())
			ctx := over
			if !before {
				ctx = tied{t.Context(), func() bool { return c.votes(&l) > n/2 }}
			}
			v, failure := c.acquire(ctx, l)
			failed(t, failure, quorum.Unavailable)
			v.ReleaseLater(time.Time{})
			c.free(t, "k")
		}
	}
}

func TestALockIsGivenToAnotherTokenAndTakenOnce(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	v := c.take(t, lock("k", terms()))
	to, late := c.votesFor(lock("k", terms())), c.votesFor(lock("k", terms()))
	won(t, v.Give(t.Context(), to))
	redistest.Wait(t, "all have the new token", func() bool { return c.votes(to.Lock()) == 3 })
	failed(t, late.Take(t.Context(), v.Lock().Token), quorum.Taken)
	assert.Equal(t, 3, c.votes(to.Lock()))
	failed(t, release(t, v), quorum.Taken)
	won(t, release(t, to))
	c.free(t, "k")
}

func TestWhatIsReleasedAfterCloseIsReleasedAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	v := c.take(t, lock("k", terms()))
	redistest.Wait(t, "all votes", func() bool { return c.votes(v.Lock()) == 3 })
	c.Close(10 * time.Second)
	_, failure := c.acquire(t.Context(), lock("other", terms()))
	failed(t, failure, quorum.Unavailable)
	v.ReleaseLater(time.Time{})
	assert.Zero(t, c.votes(v.Lock()))
}
