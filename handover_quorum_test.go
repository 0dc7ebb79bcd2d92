package redimutex_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestAHandOverWorksByMajority(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	opts := []redimutex.Option{redimutex.WithFencing(), redimutex.WithNodeTimeout(time.Second)}
	giver, taker := all.Client(t, opts...).Mutex("k"), all.Client(t, opts...).Mutex("k")
	third := all.Client(t, opts...).Mutex("k")
	l, err := giver.Acquire(t.Context())
	require.NoError(t, err)
	redistest.Wait(t, "the third vote", func() bool { return all[1].Exists("k") && all[2].Exists("k") })
	all[0].Kill()
	h, err := l.HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	assert.ErrorIs(t, third.TryLockContext(t.Context()), redimutex.ErrLocked)
	require.NoError(t, taker.TakeOver(t.Context(), h))
	assert.Greater(t, taker.Lease().Fence(), l.Fence())
	all[0].Restart() // it comes back without its data
	assert.ErrorIs(t, third.TakeOver(t.Context(), h), redimutex.ErrLost)
	assert.ErrorIs(t, third.TryLockContext(t.Context()), redimutex.ErrLocked)
	require.NoError(t, taker.Lease().Err())
	require.NoError(t, taker.Lease().Extend(t.Context(), time.Minute))
	require.NoError(t, taker.UnlockContext(t.Context()))

	l, err = giver.Acquire(t.Context())
	require.NoError(t, err)
	all[1].Kill()
	all[2].Kill()
	h, err = l.HandOver(t.Context(), time.Minute)
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.ErrorIs(t, l.Err(), redimutex.ErrUnlocked)
	require.ErrorIs(t, taker.TakeOver(t.Context(), h), redimutex.ErrUnavailable)
}

// If takers split the votes, either one of them gets the lock, or none does and the Handover stays good.
func TestTakersThatSplitTheVotesLeaveTheHandoverGood(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	giver := all.Client(t, patient).Mutex("k")
	for range 10 {
		h := handOver(t, giver, time.Minute)
		takers := []*redimutex.Mutex{all.Client(t, patient).Mutex("k"), all.Client(t, patient).Mutex("k"), all.Client(t, patient).Mutex("k")}
		errs := make(chan error)
		for _, m := range takers {
			go func() { errs <- m.TakeOver(t.Context(), h) }()
		}
		won := 0
		for range takers {
			if err := <-errs; err == nil {
				won++
			} else {
				assert.ErrorIs(t, err, redimutex.ErrLost)
			}
		}
		require.LessOrEqual(t, won, 1)
		if won == 0 {
			redistest.Wait(t, "the votes are back", func() bool { return takers[0].TakeOver(t.Context(), h) == nil })
		}
		for _, m := range takers {
			if m.Lease() != nil {
				require.NoError(t, m.UnlockContext(t.Context()))
			}
		}
		for _, s := range all { // a vote for a Handover that is used up may stay until it expires
			s.Do("DEL", "k")
		}
	}
}

// takeEverywhere locks m on all servers.
func takeEverywhere(t *testing.T, all locktest.Servers, m *redimutex.Mutex) *redimutex.Lease {
	t.Helper()
	l, err := m.Acquire(t.Context())
	require.NoError(t, err)
	all.Everywhere(t, m.Key(), l, 10*time.Minute)
	return l
}

// handOverEverywhere hands over a lock on key. All servers have its Handover, not only a majority.
func handOverEverywhere(t *testing.T, all locktest.Servers, key string, within time.Duration) redimutex.Handover {
	t.Helper()
	l := takeEverywhere(t, all, all.Client(t, patient).Mutex(key))
	h, err := l.HandOver(t.Context(), within)
	require.NoError(t, err)
	for _, s := range all {
		redistest.Wait(t, "all servers have the Handover", func() bool { return s.Get(key) != l.Token() })
	}
	return h
}

// A vote that a taker gives back lasts as long as it would have without the taker, and no longer.
func TestATakerThatFailsGivesNoMoreTimeThanTheHandoverHad(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	h := handOverEverywhere(t, all, "k", 2*time.Minute)
	given := all[0].Get("k")
	for i, s := range all[1:] {
		s.Do("SET", "k", fmt.Sprint("another ", i), "PX", "60000") // two different tokens: neither has a majority
	}
	m := all.Client(t, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(10*time.Second)).Mutex("k")
	require.ErrorIs(t, m.TakeOver(t.Context(), h), redimutex.ErrLost)
	redistest.Wait(t, "the vote is back", func() bool { return all[0].Get("k") == given })
	assert.LessOrEqual(t, all[0].PTTL("k"), 2*time.Minute)
}

// The Handover is worth nothing any more. Given back, it would block that server for the rest of its time.
func TestATakerThatAnotherWasFasterThanGivesNothingBack(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	h := handOverEverywhere(t, all, "k", 10*time.Minute)
	for _, s := range all[1:] {
		s.Do("SET", "k", "another", "PX", "60000")
	}
	require.ErrorIs(t, all.Client(t, patient).Mutex("k").TakeOver(t.Context(), h), redimutex.ErrLost)
	redistest.Wait(t, "the first server is free", func() bool { return all[0].Get("k") == "" })
}

// A server does not answer the giver or the taker. When it is back, it keeps nothing of theirs, whether it comes back before
// or after the end of the time in which it may still execute their commands.
func TestAHandOverWithoutAMinorityLeavesNothingThere(t *testing.T) {
	t.Parallel()
	const giver, taker, soon, late = true, false, 0, 1500 * time.Millisecond
	for name, c := range map[string]struct {
		asks bool
		back time.Duration
	}{"giver, soon": {giver, soon}, "giver, late": {giver, late}, "taker, soon": {taker, soon}, "taker, late": {taker, late}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := locktest.Start(t, 3)
			front := redistest.NewFront(t, all[2])
			client := newClientOver(t, []redimutex.Pool{all[0].Pool(), all[1].Pool(), front.Pool()}, redimutex.WithTTL(10*time.Minute),
				redimutex.WithNodeTimeout(time.Second))
			m := client.Mutex("k")
			l := takeEverywhere(t, all, m)
			if c.asks == giver {
				front.Hang(redistest.AtCommand)
			}
			h, err := l.HandOver(t.Context(), 10*time.Minute)
			require.NoError(t, err)
			if c.asks == taker {
				redistest.Wait(t, "the Handover everywhere", func() bool {
					return !slices.ContainsFunc(all, func(s *redistest.Server) bool { return s.Get("k") == l.Token() })
				})
				front.Hang(redistest.AtCommand)
			}
			require.NoError(t, m.TakeOver(t.Context(), h))
			back := time.Now().Add(c.back)
			redistest.Wait(t, "the time", func() bool { return time.Now().After(back) })
			front.Lift()
			require.NoError(t, m.UnlockContext(t.Context()))
			redistest.Wait(t, "nothing is left", func() bool { return all[2].Get("k") == "" })
		})
	}
}

// The hanging server keeps the lock for longer than the other servers have told.
func TestAHandOverKnowsHowLongAHangingServerKeepsTheLock(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	fronts, client := fronted(t, all, redimutex.WithTTL(10*time.Minute), redimutex.WithNodeTimeout(time.Second))
	l := takeEverywhere(t, all, client.Mutex("k"))
	for _, s := range all[:2] {
		s.Do("PEXPIRE", "k", 4000)
	}
	fronts[2].Hang(redistest.AtCommand)
	_, err := l.HandOver(t.Context(), 10*time.Minute)
	require.NoError(t, err)
	late := time.Now().Add(5 * time.Second)
	redistest.Wait(t, "what the others have told is over", func() bool { return time.Now().After(late) })
	fronts[2].Lift()
	redistest.Wait(t, "the third server is free", func() bool { return all[2].Get("k") == "" })
}

// The server seemed silent, so the others decided without it. But without its vote, one more failure would be one too many.
func TestAHandoverHasTheVoteOfAServerThatWasSlowForAMoment(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	front := redistest.NewFront(t, all[2])
	client := newClientOver(t, []redimutex.Pool{all[0].Pool(), all[1].Pool(), front.Pool()}, patient)
	l := takeEverywhere(t, all, client.Mutex("k"))
	front.Hang(redistest.AtCommand)
	require.NoError(t, client.Mutex("another").TryLockContext(t.Context()))
	hung := time.Now()
	redistest.Wait(t, "the third server is silent", func() bool { return time.Since(hung) > 500*time.Millisecond })
	_, err := l.HandOver(t.Context(), 10*time.Minute)
	require.NoError(t, err)
	front.Lift()
	redistest.Wait(t, "the vote", func() bool { return all[2].Get("k") == all[0].Get("k") })
}

// If a server stops answering, the taker can't give back its vote there. The vote ends once the server is back.
func TestAVoteThatATakerCouldNotGiveBackIsReleased(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	network := all[0].Proxy()
	pools := []redimutex.Pool{network.Pool(), all[1].Pool(), all[2].Pool()}
	client := newClientOver(t, pools, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Second))
	// On a busy machine the first server may seem silent. Then it is not asked, and the round is repeated.
	for n := range 20 {
		key := fmt.Sprint("k", n)
		h := handOverEverywhere(t, all, key, 10*time.Minute)
		given := all[0].Get(key)
		for _, s := range all[1:] {
			s.Do("SET", key, "another", "PX", "600000")
		}
		redistest.Wait(t, "the clock of the first server is known", func() bool {
			warm := client.Mutex("warm")
			warm.Lock()
			defer warm.Unlock()
			return all[0].Get("warm") == warm.Lease().Token()
		})
		network.Hold(redistest.Replies)
		require.ErrorIs(t, client.Mutex(key).TakeOver(t.Context(), h), redimutex.ErrLost)
		came, end := false, time.Now().Add(time.Second)
		redistest.Wait(t, "the taker's vote", func() bool {
			came = all[0].Get(key) != given
			return came || time.Now().After(end)
		})
		network.Release()
		redistest.Wait(t, "it has gone again", func() bool { v := all[0].Get(key); return v == given || v == "" })
		if came {
			return
		}
	}
	t.Fatal("the taker never had a vote")
}

// One server has done the swap, one has another token, and one does not answer: neither side has a majority.
func TestAHandOverWhoseVotesDecideNothingIsUnavailable(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	l, err := all.Client(t, patient).Mutex("k").Acquire(t.Context())
	require.NoError(t, err)
	other, err := all.Client(t, patient).Mutex("k2").Acquire(t.Context())
	require.NoError(t, err)
	for _, s := range all {
		redistest.Wait(t, "all servers have both", func() bool { return s.Exists("k") && s.Exists("k2") })
	}
	h, err := other.HandOver(t.Context(), time.Hour)
	require.NoError(t, err)
	redistest.Wait(t, "the first server has the Handover", func() bool { return all[0].Get("k2") != other.Token() })
	for _, key := range []string{"k", "k2"} {
		all[1].Do("SET", key, "another", "PX", "60000")
	}
	all[2].Kill()

	given, err := l.HandOver(t.Context(), time.Hour)
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.NotErrorIs(t, err, redimutex.ErrLocked)
	assert.NotEqual(t, redimutex.Handover{}, given)
	m := all.Client(t, patient).Mutex("k2")
	err = m.TakeOver(t.Context(), h)
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.NotErrorIs(t, err, redimutex.ErrLocked)
	all[1].Do("DEL", "k2")
	require.ErrorIs(t, m.TakeOver(t.Context(), h), redimutex.ErrUnavailable, "the vote of the first server alone")
	all[2].Restart()
	require.ErrorIs(t, m.TakeOver(t.Context(), h), redimutex.ErrLost)
}

func TestAHandOverMayLastLongerThanTheTTLWithTheRestartGuard(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	opts := []redimutex.Option{redimutex.WithTTL(2 * time.Second), redimutex.WithNodeTimeout(time.Second), redimutex.WithRestartGuard()}
	giver, taker := all.Client(t, opts...).Mutex("k"), all.Client(t, opts...).Mutex("k")
	require.NoError(t, giver.LockContext(t.Context(), time.Minute))
	h, err := giver.Lease().HandOver(t.Context(), time.Hour)
	require.NoError(t, err)
	require.NoError(t, taker.TakeOver(t.Context(), h))
	require.NoError(t, taker.UnlockContext(t.Context()))
}

func TestAHandOverOfWhatAMajorityHasLostLeavesNothing(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	m := all.Client(t, patient).Mutex("k")
	l, err := m.Acquire(t.Context())
	require.NoError(t, err)
	for _, s := range all {
		redistest.Wait(t, "it has all votes", func() bool { return s.Exists("k") })
	}
	all[0].Do("DEL", "k")
	all[1].Do("DEL", "k")
	_, err = l.HandOver(t.Context(), time.Hour)
	require.ErrorIs(t, err, redimutex.ErrLost)
	redistest.Wait(t, "the vote of the last server is free", func() bool { return !all[2].Exists("k") })
}

// A swap without an answer never takes a lock from another holder, so the lease does not lose the vote.
func TestALeaseIsRenewedThatARepeatedTakeOverHasFound(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	h := handOverEverywhere(t, all, "k", time.Minute)
	fronts, pools := all.Fronts(t)
	client := newClientOver(t, pools, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Second))
	learnClocks(t, all, client)
	m := client.Mutex("k")
	for _, f := range fronts {
		f.Hang(redistest.AtReply)
	}
	require.ErrorIs(t, m.TakeOver(t.Context(), h), redimutex.ErrUnavailable)
	for _, f := range fronts {
		f.Lift()
	}
	require.NoError(t, m.TakeOver(t.Context(), h))
	require.NoError(t, m.Lease().Extend(t.Context(), 2*time.Hour))
	require.NoError(t, m.UnlockContext(t.Context()))
}

func TestATakerWhoseRepeatFailsGivesNoMoreTimeThanTheHandoverHad(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	h := handOverEverywhere(t, all, "k", 2*time.Minute)
	given := all[0].Get("k")
	fronts, pools := all.Fronts(t)
	client := newClientOver(t, pools, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(3*time.Second))
	learnClocks(t, all, client)
	m := client.Mutex("k")
	for i := range 2 {
		fronts[i].Hang(redistest.AtCommand)
	}
	require.ErrorIs(t, m.TakeOver(t.Context(), h), redimutex.ErrUnavailable)
	require.NotEqual(t, given, all[2].Get("k"), "one has answered")
	for i := range 2 {
		all[i].Do("SET", "k", fmt.Sprint("another ", i), "PX", "60000")
		fronts[i].Lift()
	}
	require.ErrorIs(t, m.TakeOver(t.Context(), h), redimutex.ErrLost)
	redistest.Wait(t, "the vote is back", func() bool { return all[2].Get("k") == given })
	assert.LessOrEqual(t, all[2].PTTL("k"), 2*time.Minute)
}

// fronted returns a Client that reaches the servers through fronts. It knows their clocks, and they know the scripts.
func fronted(t *testing.T, all locktest.Servers, opts ...redimutex.Option) ([]*redistest.Front, *redimutex.Client) {
	t.Helper()
	fronts, pools := all.Fronts(t)
	warm := newClientOver(t, pools, patient).Mutex("k")
	require.NoError(t, warm.TakeOver(t.Context(), handOverEverywhere(t, all, "k", time.Minute)))
	require.NoError(t, warm.UnlockContext(t.Context()))
	client := newClientOver(t, pools, opts...)
	learnClocks(t, all, client)
	redistest.Wait(t, "all are free", func() bool { return all.All("k", "") })
	return fronts, client
}

// handedOver returns three servers that all have a Handover with that time, and the Client of a taker with that node timeout.
func handedOver(
	t *testing.T, within, timeout time.Duration, opts ...redimutex.Option,
) (locktest.Servers, []*redistest.Front, *redimutex.Client, redimutex.Handover) {
	t.Helper()
	all := locktest.Start(t, 3)
	opts = append([]redimutex.Option{redimutex.WithTTL(10 * time.Minute), redimutex.WithNodeTimeout(timeout)}, opts...)
	fronts, client := fronted(t, all, opts...)
	return all, fronts, client, handOverEverywhere(t, all, "k", within)
}

// deniedByOne returns three servers, the last without the Handover, and the Client of a taker with that node timeout.
func deniedByOne(t *testing.T, within, timeout time.Duration) (locktest.Servers, []*redistest.Front, *redimutex.Client, redimutex.Handover) {
	t.Helper()
	all, fronts, client, h := handedOver(t, within, timeout)
	all[2].Do("DEL", "k")
	return all, fronts, client, h
}

// The token that a taker uses in its first step is not the token of a holder.
func TestAGiverHearsOfAnotherHolderWhateverItsLabel(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	l := takeEverywhere(t, all, all.Client(t, patient).Mutex("k"))
	another := uuid.NewString() + " ends with a space "
	for _, s := range all {
		s.Do("SET", "k", another, "PX", "60000")
	}
	_, err := l.HandOver(t.Context(), time.Minute)
	require.ErrorIs(t, err, redimutex.ErrLost)
}

// One server has lost the lock, one has another token, and one does not answer: the giver's majority is gone. Only if the
// other token is that of a taker in its first step can the giver's vote come back.
func TestAGiverHearsOfAnotherHolderWhenTwoServersHaveAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"another holder":          {uuid.NewString(), redimutex.ErrLost},
		"a taker's first step":    {uuid.NewString() + server.StepMark, redimutex.ErrUnavailable},
		"a taker that has won it": {uuid.NewString() + server.OwnerMark + "label", redimutex.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := locktest.Start(t, 3)
			fronts, client := fronted(t, all, redimutex.WithTTL(10*time.Minute), redimutex.WithNodeTimeout(20*time.Second))
			l := takeEverywhere(t, all, client.Mutex("k"))
			all[0].Do("DEL", "k")
			all[1].Do("SET", "k", c.token, "PX", "600000")
			fronts[2].Hang(redistest.AtCommand)
			defer fronts[2].Lift()
			_, err := l.HandOver(t.Context(), time.Minute)
			require.ErrorIs(t, err, c.want)
		})
	}
}

// The server that hangs has not executed the first HandOver, and still has the giver's token.
func TestARepeatOfAHandOverThatIsTooLateLeavesNothingOfTheGiver(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	fronts, client := fronted(t, all, redimutex.WithTTL(10*time.Minute), redimutex.WithNodeTimeout(time.Second))
	l := takeEverywhere(t, all, client.Mutex("k"))
	fronts[1].Hang(redistest.AtReply)
	fronts[2].Hang(redistest.AtCommand)
	_, err := l.HandOver(t.Context(), 100*time.Millisecond)
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	fronts[1].Lift()
	redistest.Wait(t, "its time is over", func() bool {
		_, err := l.HandOver(t.Context(), 100*time.Millisecond)
		return errors.Is(err, redimutex.ErrLost)
	})
	fronts[2].Lift()
	redistest.Wait(t, "the third server is free", func() bool { return all[2].Get("k") == "" })
}

// No server has told how much time the Handover has left.
func TestATakerWithoutAnAnswerGivesBackNoMoreTimeThanTheHandoverHad(t *testing.T) {
	t.Parallel()
	all, fronts, client, h := handedOver(t, 5*time.Second, time.Second)
	for i, s := range all[1:] {
		s.Do("SET", "k", fmt.Sprint("another ", i), "PX", "60000")
	}
	fronts[0].Hang(redistest.AtReply)
	require.ErrorIs(t, client.Mutex("k").TakeOver(t.Context(), h), redimutex.ErrLost)
	fronts[0].Lift()
	redistest.Wait(t, "the first server is free", func() bool { return all[0].Get("k") == "" })
}

// One server has no Handover, and one hangs. A kept vote of the third would last for as long as the taker repeats the call.
func TestATakerThatIsRefusedDoesNotKeepItsVoteForARepeat(t *testing.T) {
	t.Parallel()
	all, fronts, client, h := deniedByOne(t, 3*time.Second, 500*time.Millisecond)
	fronts[1].Hang(redistest.AtCommand)
	m := client.Mutex("k")
	redistest.Wait(t, "the time of the Handover is over", func() bool { return errors.Is(m.TakeOver(t.Context(), h), redimutex.ErrLost) })
	redistest.Wait(t, "the first server is free", func() bool { return all[0].Get("k") == "" })
}

// As above, but the answer of the third server is lost.
func TestATakerThatIsRefusedDoesNotKeepAVoteThatItsRepeatHasFound(t *testing.T) {
	t.Parallel()
	all, fronts, client, h := deniedByOne(t, 3*time.Second, 500*time.Millisecond)
	fronts[1].Hang(redistest.AtCommand)
	fronts[0].Hang(redistest.AtReply)
	m := client.Mutex("k")
	require.ErrorIs(t, m.TakeOver(t.Context(), h), redimutex.ErrUnavailable)
	fronts[0].Lift()
	redistest.Wait(t, "the vote is over", func() bool { return errors.Is(m.TakeOver(t.Context(), h), redimutex.ErrLost) })
	redistest.Wait(t, "the first server is free", func() bool { return all[0].Get("k") == "" })
}

// The lock of a taker that crashes is free when the taker's TTL is over, not only when the Handover would have ended.
func TestATakerHasItsOwnTTL(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	h := handOverEverywhere(t, all, "k", time.Hour)
	m := all.Client(t, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second), redimutex.WithoutRenewal()).Mutex("k")
	require.NoError(t, m.TakeOver(t.Context(), h))
	for _, s := range all {
		redistest.Wait(t, "all servers have the TTL", func() bool { return s.Get("k") == m.Lease().Token() && s.PTTL("k") <= time.Minute })
	}
	require.NoError(t, m.UnlockContext(t.Context()))
}

// A command of a call that was cut short may be executed when the repeated call already has the lock.
func TestALateFirstStepTakesNothingBackOfTheSecond(t *testing.T) {
	t.Parallel()
	all, fronts, client, h := handedOver(t, time.Hour, 20*time.Second)
	const delay = time.Second
	var held atomic.Int64
	for _, f := range fronts[1:] {
		var once sync.Once
		f.On(func(command []string) (fate redistest.Fate) {
			if first, _ := isStep(command); first {
				once.Do(func() {
					fate.Delay = delay
					held.Add(1)
				})
			}
			return fate
		})
	}
	m := client.Mutex("k")
	ctx, cancel := context.WithCancel(t.Context())
	outcome := make(chan error, 1)
	go func() { outcome <- m.TakeOver(ctx, h) }()
	redistest.Wait(t, "two first steps to be late", func() bool { return held.Load() == 2 })
	over := time.Now().Add(2 * delay)
	cancel()
	require.ErrorIs(t, <-outcome, context.Canceled)
	require.NoError(t, m.TakeOver(t.Context(), h))
	redistest.Wait(t, "they are executed", func() bool { return time.Now().After(over) })
	require.NoError(t, m.Lease().Extend(t.Context(), time.Hour))
	for _, s := range all {
		assert.Equal(t, m.Lease().Token(), s.Get("k"))
	}
	require.NoError(t, m.UnlockContext(t.Context()))
}

// One server hangs with the token of the first call, and still hangs during the second call.
func TestATakerKnowsItsTokensOfAllCallsBefore(t *testing.T) {
	t.Parallel()
	all, fronts, client, h := deniedByOne(t, time.Hour, 2*time.Second)
	given := all[0].Get("k")
	fronts[0].Hang(redistest.AtReply)
	m := client.Mutex("k")
	outcome := make(chan error, 1)
	go func() { outcome <- m.TakeOver(t.Context(), h) }()
	redistest.Wait(t, "the first vote", func() bool { return all[0].Get("k") != given })
	fronts[0].Hang(redistest.AtCommand)
	require.ErrorIs(t, <-outcome, redimutex.ErrUnavailable)
	require.ErrorIs(t, m.TakeOver(t.Context(), h), redimutex.ErrUnavailable)
	fronts[0].Lift()
	redistest.Wait(t, "a repeat has the lock", func() bool {
		err := m.TakeOver(t.Context(), h)
		require.NotErrorIs(t, err, redimutex.ErrLost)
		return err == nil
	})
	require.NoError(t, m.UnlockContext(t.Context()))
}

// The taker does not know that it had a vote, nor how long the vote lasts.
func TestATakerGivesAVoteBackThatItWasNotToldOf(t *testing.T) {
	t.Parallel()
	all, fronts, client, h := deniedByOne(t, time.Hour, 3*time.Second)
	fronts[1].Hang(redistest.AtCommand)
	fronts[0].Hang(redistest.AtReply)
	require.ErrorIs(t, client.Mutex("k").TakeOver(t.Context(), h), redimutex.ErrUnavailable)
	fronts[0].Lift()
	fronts[1].Lift()
	other := all.Client(t, patient).Mutex("k")
	redistest.Wait(t, "another takes it over", func() bool { return other.TakeOver(t.Context(), h) == nil })
}

// A vote that the call before gives back may still be on its way.
func TestARepeatedTakeOverIsNotLostThroughItsOwnCallBefore(t *testing.T) {
	t.Parallel()
	_, fronts, client, h := deniedByOne(t, time.Hour, time.Second)
	fronts[1].Hang(redistest.AtCommand)
	m := client.Mutex("k")
	for range 8 {
		require.ErrorIs(t, m.TakeOver(t.Context(), h), redimutex.ErrUnavailable)
	}
}

// The Handover has a vote on a server that hangs. So the first server must keep the lock until the Handover ends.
func TestAVoteThatATakerCouldNotGiveBackLastsAsLongAsTheHandover(t *testing.T) {
	t.Parallel()
	all, fronts, client, h := deniedByOne(t, time.Minute, 3*time.Second)
	given := all[0].Get("k")
	fronts[1].Hang(redistest.AtCommand)
	outcome := make(chan error, 1)
	go func() { outcome <- client.Mutex("k").TakeOver(t.Context(), h) }()
	redistest.Wait(t, "the first vote", func() bool { return all[0].Get("k") != given })
	fronts[0].Hang(redistest.AtCommand)
	require.ErrorIs(t, <-outcome, redimutex.ErrUnavailable)
	late := time.Now().Add(4 * time.Second)
	redistest.Wait(t, "it could not be given back", func() bool { return time.Now().After(late) })
	fronts[0].Lift()
	redistest.Wait(t, "it ends with the Handover", func() bool { return all[0].PTTL("k") <= time.Minute })
	assert.NotEmpty(t, all[0].Get("k"))
}

// A repeat makes new tokens. So a vote for the old token must not stay for the TTL of the lock.
func TestATakerThatIsRefusedForGoodLeavesNoVoteOfItsOwn(t *testing.T) {
	t.Parallel()
	all, fronts, client, h := handedOver(t, 2*time.Hour, 20*time.Second, redimutex.WithTTL(time.Hour))
	given := all[0].Get("k")
	for _, f := range fronts[1:] {
		f.On(func(command []string) (fate redistest.Fate) {
			if _, second := isStep(command); second {
				fate.Reply = "-NOPERM no\r\n"
			}
			return fate
		})
	}
	m := client.Mutex("k")
	err := m.TakeOver(t.Context(), h)
	var refused *redimutex.NodeError
	require.ErrorAs(t, err, &refused)
	require.NotErrorIs(t, err, redimutex.ErrUnavailable)
	redistest.Wait(t, "the first server has nothing of the taker", func() bool {
		got := all[0].Get("k") // the Handover is back if the first server was asked after both refusals
		return got == "" || got == given
	})
	for i, f := range fronts[1:] {
		redistest.Wait(t, "the Handover is back", func() bool { return all[i+1].Get("k") == given })
		f.On(nil)
	}
	require.NoError(t, m.TakeOver(t.Context(), h))
	m.Unlock()
}

// As above, but in the first step: the vote of one server goes back to the Handover, so that another taker can use it.
func TestATakerWhoseFirstStepIsRefusedForGoodGivesItsVoteBack(t *testing.T) {
	t.Parallel()
	all, fronts, client, h := handedOver(t, 2*time.Hour, 20*time.Second, redimutex.WithTTL(time.Hour))
	given := all[0].Get("k")
	stepped := make(chan struct{})
	for i, f := range fronts {
		f.On(func(command []string) (fate redistest.Fate) {
			if first, _ := isStep(command); first && i > 0 {
				<-stepped
				fate.Reply = "-NOPERM no\r\n"
			}
			return fate
		})
	}
	outcome := make(chan error, 1)
	m := client.Mutex("k")
	go func() { outcome <- m.TakeOver(t.Context(), h) }()
	redistest.Wait(t, "the first server has taken the step", func() bool { return all[0].Get("k") != given })
	close(stepped)
	err := redistest.Receive(t, "the outcome", outcome)
	require.ErrorContains(t, err, "NOPERM")
	require.NotErrorIs(t, err, redimutex.ErrUnavailable)
	redistest.Wait(t, "the Handover is back", func() bool { return all[0].Get("k") == given })
}

// learnClocks makes the client learn the clocks of all servers, also of those for which a majority did not wait. Afterwards no
// server owes the client an answer: a try passes over a server that seems to be silent.
func learnClocks(t *testing.T, all locktest.Servers, client *redimutex.Client) {
	t.Helper()
	m := client.Mutex("other")
	require.NoError(t, m.LockContext(t.Context(), 0))
	for _, s := range all {
		redistest.Wait(t, "it has voted", func() bool { return s.Get("other") != "" })
	}
	require.NoError(t, m.UnlockContext(t.Context()))
	for _, p := range client.Pools() {
		pool := p.(*redis.Pool)
		redistest.Wait(t, "all answers", func() bool { return pool.ActiveCount() == pool.IdleCount() })
	}
}

// isStep reports whether a command is the first or the second step of a TakeOver.
func isStep(command []string) (first, second bool) {
	at := slices.IndexFunc(command, func(s string) bool { return len(s) < 100 && strings.HasSuffix(s, server.StepMark) })
	last := len(command) - 1
	return at > 0 && at < last, at == last && command[last-1] != "1"
}

// Giving votes back takes time on the servers, possibly more than the caller has.
func TestATakerThatGivesUpDoesNotWaitForWhatGoesBack(t *testing.T) {
	t.Parallel()
	const timeout = 30 * time.Second
	all, fronts, client, h := handedOver(t, time.Hour, timeout)
	given := all[0].Get("k")
	for i, s := range all[1:] {
		s.Do("SET", "k", fmt.Sprint("another ", i), "PX", "60000") // two different tokens: neither has a majority
	}
	asks, goOn := make(chan struct{}), make(chan struct{})
	ask, let := sync.OnceFunc(func() { close(asks) }), sync.OnceFunc(func() { close(goOn) })
	defer let()
	for _, f := range fronts {
		f.On(func(command []string) (fate redistest.Fate) {
			if last := len(command) - 1; strings.HasSuffix(command[last], server.StepMark) { // a vote goes back
				ask()
				<-goOn
			}
			return fate
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	outcome := make(chan error, 1)
	go func() { outcome <- client.Mutex("k").TakeOver(ctx, h) }()
	redistest.Receive(t, "something goes back", asks)
	cancel()
	began := time.Now()
	require.Error(t, <-outcome)
	assert.Less(t, time.Since(began), timeout/2)
	let()
	redistest.Wait(t, "the vote is back", func() bool { return all[0].Get("k") == given })
}

// If takers that repeat kept their votes, each could lack the vote of the other, until the Handover ends.
func TestATakerThatHasSplitTheVotesDoesNotKeepItsOwnForAServerThatHangs(t *testing.T) {
	t.Parallel()
	const timeout = 20 * time.Second
	all, fronts, client, h := handedOver(t, time.Hour, timeout)
	given := all[2].Get("k")
	all[0].Do("SET", "k", "another taker"+server.StepMark, "PX", time.Hour.Milliseconds())
	fronts[1].Hang(redistest.AtCommand)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- client.Mutex("k").TakeOver(ctx, h) }()
	redistest.Wait(t, "it has a vote", func() bool { return all[2].Get("k") != given })
	began := time.Now()
	redistest.Wait(t, "the vote goes back", func() bool { return all[2].Get("k") == given })
	assert.Less(t, time.Since(began), timeout/2)
	cancel()
	require.Error(t, <-ended)
	fronts[1].Lift()
}

// In its second step a taker keeps its votes, and asks again soon: the other taker gives the missing vote back.
func TestATakerThatMissesAVoteInItsSecondStepDoesNotWaitForAServerThatHangs(t *testing.T) {
	t.Parallel()
	const timeout = 20 * time.Second
	all, fronts, client, h := handedOver(t, time.Hour, timeout)
	goOn := make(chan struct{})
	fronts[1].On(func(command []string) (fate redistest.Fate) {
		if _, second := isStep(command); second {
			<-goOn
		}
		return fate
	})
	fronts[2].On(func(command []string) (fate redistest.Fate) {
		if _, second := isStep(command); second {
			all[2].Do("SET", "k", "another taker"+server.StepMark, "PX", time.Hour.Milliseconds())
		}
		return fate
	})
	began := time.Now()
	m := client.Mutex("k")
	require.ErrorIs(t, m.TakeOver(t.Context(), h), redimutex.ErrUnavailable)
	assert.Less(t, time.Since(began), timeout/2)
	fronts[2].On(nil)
	all[2].Do("DEL", "k")
	close(goOn)
	require.NoError(t, m.TakeOver(t.Context(), h))
	m.Unlock()
}

func TestARepeatedTakeOverGoesOnWithItsSecondStep(t *testing.T) {
	t.Parallel()
	_, fronts, client, h := handedOver(t, time.Hour, time.Second)
	var firsts, seconds atomic.Int64
	for _, f := range fronts {
		f.On(func(command []string) (fate redistest.Fate) {
			switch first, second := isStep(command); {
			case first:
				firsts.Add(1)
			case second && seconds.Add(1) <= 3:
				fate.Reply = "-BUSY no\r\n"
			}
			return fate
		})
	}
	m := client.Mutex("k")
	require.ErrorIs(t, m.TakeOver(t.Context(), h), redimutex.ErrUnavailable)
	redistest.Wait(t, "the first step to be on all", func() bool { return firsts.Load() == 3 }) // two of them decide
	require.NoError(t, m.TakeOver(t.Context(), h))
	assert.EqualValues(t, 3, firsts.Load())
	m.Unlock()
}

// Its vote on the first server already has the taker's own TTL. So the vote is released, and does not go back.
func TestATakerThatLosesItsSecondStepLeavesNothing(t *testing.T) {
	t.Parallel()
	all, fronts, client, h := handedOver(t, time.Hour, 10*time.Second)
	for i, f := range fronts[1:] {
		f.On(func(command []string) (fate redistest.Fate) {
			if _, second := isStep(command); second {
				all[i+1].Do("SET", "k", fmt.Sprint("another ", i), "PX", "60000")
			}
			return fate
		})
	}
	require.ErrorIs(t, client.Mutex("k").TakeOver(t.Context(), h), redimutex.ErrLost)
	redistest.Wait(t, "the first server is free", func() bool { return all[0].Get("k") == "" })
}

// One server has executed the first step, but its answer is lost. Another server has no Handover.
func TestATakerKnowsItsFirstStepHoweverOftenItRepeats(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	p := all[0].Proxy()
	pools := []redimutex.Pool{p.Pool(), all[1].Pool(), all[2].Pool()}
	warm := newClientOver(t, pools, patient).Mutex("k")
	require.NoError(t, warm.TakeOver(t.Context(), handOverEverywhere(t, all, "k", time.Minute)))
	require.NoError(t, warm.UnlockContext(t.Context()))
	redistest.Wait(t, "all are free", func() bool { return all.All("k", "") })
	client := newClientOver(t, pools, redimutex.WithTTL(10*time.Minute), redimutex.WithNodeTimeout(3*time.Second))
	learnClocks(t, all, client)
	m, h := client.Mutex("k"), handOverEverywhere(t, all, "k", time.Hour)
	given := all[0].Get("k")
	all[2].Do("DEL", "k")
	p.Hold(redistest.Replies)
	outcome := make(chan error, 1)
	go func() { outcome <- m.TakeOver(t.Context(), h) }()
	redistest.Wait(t, "the first step", func() bool { return all[0].Get("k") != given })
	p.Cut()
	require.Error(t, <-outcome)
	for range 20 {
		require.ErrorIs(t, m.TakeOver(t.Context(), h), redimutex.ErrUnavailable)
	}
	p.Release(redistest.Replies)
	p.Heal()
	redistest.Wait(t, "its own token is found", func() bool { return m.TakeOver(t.Context(), h) == nil })
	m.Unlock()
}

// The fence counters hold no numbers, so a taker with fencing can never have the lock. A taker without fencing can.
func TestATakerThatIsRefusedForGoodGivesTheHandoverBack(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 3)
	h := handOverEverywhere(t, all, "k", time.Hour)
	given := all[0].Get("k")
	for _, s := range all {
		s.Do("SET", server.FenceKey("k"), "foreign", "PX", "3600000")
	}
	m := all.Client(t, patient, redimutex.WithFencing()).Mutex("k")
	err := m.TakeOver(t.Context(), h)
	var refused *redimutex.NodeError
	require.ErrorAs(t, err, &refused)
	require.NotErrorIs(t, err, redimutex.ErrUnavailable)
	for _, s := range all {
		redistest.Wait(t, "the Handover is back", func() bool { return s.Get("k") == given })
	}
	other := all.Client(t, patient).Mutex("k")
	require.NoError(t, other.TakeOver(t.Context(), h))
	other.Unlock()
}
