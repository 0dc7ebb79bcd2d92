package redimutex_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// patient is a node timeout that is too long for a busy machine to reach.
var patient = redimutex.WithNodeTimeout(9 * time.Second)

// carry passes a Handover to another process, as text.
func carry(t testing.TB, h redimutex.Handover) (there redimutex.Handover) {
	t.Helper()
	text, err := h.MarshalText()
	require.NoError(t, err)
	require.NoError(t, there.UnmarshalText(text))
	return there
}

// handOver locks m and hands it over.
func handOver(t testing.TB, m *redimutex.Mutex, within time.Duration) redimutex.Handover {
	t.Helper()
	l, err := m.Acquire(t.Context())
	require.NoError(t, err)
	h, err := l.HandOver(t.Context(), within)
	require.NoError(t, err)
	return h
}

func TestAHandoverMovesTheHoldToAnotherProcess(t *testing.T) {
	t.Parallel()
	for name, servers := range map[string]int{"one server": 1, "three servers": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := locktest.Start(t, servers)
			giver := all.Client(t, redimutex.WithFencing(), patient).Mutex("k")
			taker := all.Client(t, redimutex.WithFencing(), patient).Mutex("k")
			third := all.Client(t, redimutex.WithFencing(), patient).Mutex("k")
			l, err := giver.Acquire(t.Context())
			require.NoError(t, err)
			h, err := l.HandOver(t.Context(), time.Minute)
			require.NoError(t, err)
			assert.True(t, ended(l.Done()))
			assert.ErrorIs(t, l.Err(), redimutex.ErrUnlocked)
			assert.Nil(t, giver.Lease())
			require.Zero(t, giver.Client().Keys(), "no release follows that the next call would wait for")
			for _, m := range []*redimutex.Mutex{giver, taker, third} {
				assert.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrLocked, "nothing comes between")
			}

			there := carry(t, h)
			require.NoError(t, taker.TakeOver(t.Context(), there))
			assert.NoError(t, taker.Lease().Err())
			assert.Greater(t, taker.Lease().Fence(), l.Fence())
			assert.NotEqual(t, l.Token(), taker.Lease().Token())
			assert.ErrorIs(t, third.TakeOver(t.Context(), there), redimutex.ErrLost, "once")
			assert.ErrorIs(t, third.TryLockContext(t.Context()), redimutex.ErrLocked)
			assert.NoError(t, taker.Lease().Extend(t.Context(), time.Minute))
			require.NoError(t, taker.UnlockContext(t.Context()))

			require.NoError(t, giver.LockContext(t.Context(), time.Minute), "the giver can lock again")
			require.NoError(t, giver.UnlockContext(t.Context()))
			for _, s := range all {
				redistest.Wait(t, "the lock is free", func() bool { return !s.Exists("k") })
			}
		})
	}
}

func TestAHandedOverLockIsRenewedByTheTaker(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = 3 * time.Second
	giver, taker := newMutex(t, s.Pool(), "k", patient), newMutex(t, s.Pool(), "k", redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(ttl/2))
	require.NoError(t, taker.TakeOver(t.Context(), handOver(t, giver, time.Minute)))
	until := taker.Lease().Until()
	assert.Less(t, time.Until(until), ttl)
	redistest.Wait(t, "a renewal", func() bool { return taker.Lease().Until().After(until) })
	require.NoError(t, taker.UnlockContext(t.Context()))
}

func TestAfterTheLossOfALockThatWasTakenOverTheNextLockWaitsForUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	giver, taker := newMutex(t, s.Pool(), "k", patient), newMutex(t, s.Pool(), "k",
		redimutex.WithTTL(3*time.Second), redimutex.WithNodeTimeout(2*time.Second))
	require.NoError(t, taker.TakeOver(t.Context(), handOver(t, giver, time.Minute)))
	lost := taker.Lease()
	s.Do("DEL", "k")
	<-lost.Done()

	next := make(chan *redimutex.Lease)
	go func() {
		l, err := taker.Acquire(context.WithoutCancel(t.Context()))
		assert.NoError(t, err)
		next <- l
	}()
	locktest.WaitInLine(t, taker.Client(), 1)
	assert.Same(t, lost, taker.Lease())
	require.ErrorIs(t, taker.UnlockContext(t.Context()), redimutex.ErrLost)
	l := <-next
	require.NoError(t, l.Err(), "that Unlock was of the lost hold")
	require.NoError(t, taker.UnlockContext(t.Context()))
}

func TestAHandoverThatNobodyTakesExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		giver, taker := newMutex(t, pool, "k", patient), newMutex(t, pool, "k", patient)
		h := handOver(t, giver, 200*time.Millisecond)
		require.NoError(t, giver.LockContext(t.Context(), time.Minute))
		tooLate := func() {
			err := taker.TakeOver(t.Context(), h)
			assert.ErrorIs(t, err, redimutex.ErrLost)
			assert.ErrorContains(t, err, "its time is over, it was used before, or it is of other servers;")
		}
		tooLate()
		require.NoError(t, giver.Lease().Err())
		giver.Unlock()
		tooLate()
		assert.Nil(t, taker.Lease())
		assert.Empty(t, server.Keys())
	})
}

func TestAfterHandOverOneUnlockIsAccepted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", patient)
	for verb, unlock := range map[string]func(*redimutex.Lease) error{
		"Unlock":        func(*redimutex.Lease) error { return panicOf(m.Unlock) },
		"UnlockContext": func(*redimutex.Lease) error { return m.UnlockContext(t.Context()) },
		"Release":       func(l *redimutex.Lease) error { return l.Release(t.Context()) },
	} {
		l, err := m.Acquire(t.Context())
		require.NoError(t, err)
		h, err := l.HandOver(t.Context(), time.Minute)
		require.NoError(t, err)
		assert.NoError(t, unlock(l), verb)
		assert.ErrorIs(t, unlock(l), redimutex.ErrUnlocked, "%s: once", verb)
		_, err = l.HandOver(t.Context(), time.Minute)
		assert.ErrorIs(t, err, redimutex.ErrUnlocked)
		require.NoError(t, m.TakeOver(t.Context(), h), "the giver may take it back")
		require.NoError(t, m.UnlockContext(t.Context()))
	}
	assert.Empty(t, s.Keys())
}

func TestDoReturnsTheErrorOfFAfterHandOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	giver, taker := newMutex(t, s.Pool(), "k", patient), newMutex(t, s.Pool(), "k", patient)
	for _, want := range []error{nil, assert.AnError} {
		var h redimutex.Handover
		err := giver.Do(t.Context(), func(ctx context.Context) (err error) {
			h, err = redimutex.LeaseFrom(ctx).HandOver(ctx, time.Minute)
			require.NoError(t, err)
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrUnlocked)
			return want
		})
		assert.Equal(t, want, err)
		assert.ErrorIs(t, giver.UnlockContext(t.Context()), redimutex.ErrUnlocked)
		require.NoError(t, taker.TakeOver(t.Context(), h))
		taker.Unlock()
	}
}

func TestHandOverOfALostHoldGivesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", patient)
	for reason, take := range map[redimutex.Reason]func(){
		redimutex.Deleted: func() { s.Do("DEL", "k") },
		redimutex.Taken:   func() { s.Do("SET", "k", "another", "PX", "300") },
	} {
		l, err := m.Acquire(t.Context())
		require.NoError(t, err)
		take()
		h, err := l.HandOver(t.Context(), time.Minute)
		var lost *redimutex.LostError
		require.ErrorAs(t, err, &lost)
		assert.Equal(t, reason, lost.Reason)
		assert.ErrorIs(t, l.Err(), redimutex.ErrUnlocked, "it had ended before")
		_, err = h.MarshalText()
		assert.Error(t, err, "the Handover is empty")
		assert.NoError(t, m.UnlockContext(t.Context()))
		redistest.Wait(t, "the key is gone", func() bool { return !s.Exists("k") })
	}
}

func TestWhatCannotBeHandedOverStaysAsItIs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), patient)
	m := c.Mutex("k")
	permit, err := c.Semaphore("s", 2).Acquire(t.Context())
	require.NoError(t, err)
	hold, err := m.Acquire(t.Context())
	require.NoError(t, err)
	both, err := c.MutexAll([]string{"a", "b"}).Acquire(t.Context())
	require.NoError(t, err)
	for words, f := range map[string]func() (redimutex.Handover, error){
		"only the hold of a Mutex": func() (redimutex.Handover, error) { return permit.HandOver(t.Context(), time.Minute) },
		"a Mutex of one key":       func() (redimutex.Handover, error) { return both.HandOver(t.Context(), time.Minute) },
		"has to be more than 0":    func() (redimutex.Handover, error) { return hold.HandOver(t.Context(), 0) },
		"HandOver(-1ns): the time": func() (redimutex.Handover, error) { return hold.HandOver(t.Context(), -1) },
		"and 876000h0m0s at most":  func() (redimutex.Handover, error) { return hold.HandOver(t.Context(), 1<<62) },
	} {
		_, err := f()
		assert.ErrorContains(t, err, words)
	}
	for _, l := range []*redimutex.Lease{permit, hold, both} {
		assert.NoError(t, l.Err())
		assert.NoError(t, l.Extend(t.Context(), time.Minute))
		assert.NoError(t, l.Release(t.Context()))
	}
}

func TestTakeOverThatCannotWorkLeavesTheHandoverGood(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	giver, taker := newMutex(t, s.Pool(), "k", patient), newMutex(t, s.Pool(), "k", patient)
	c := taker.Client()
	h := handOver(t, giver, time.Minute)
	assert.ErrorContains(t, taker.TakeOver(t.Context(), redimutex.Handover{}), "the Handover is empty")
	assert.ErrorContains(t, c.Mutex("other").TakeOver(t.Context(), h), `of another key, "k"`)
	assert.ErrorContains(t, c.MutexAll([]string{"k", "l"}).TakeOver(t.Context(), h), "this is a MutexAll")
	locked := c.Mutex("other")
	other := handOver(t, newMutex(t, s.Pool(), "other", patient), 200*time.Millisecond)
	require.NoError(t, locked.LockContext(t.Context(), time.Minute))
	err := locked.TakeOver(t.Context(), other)
	assert.ErrorIs(t, err, redimutex.ErrLocked)
	assert.ErrorContains(t, err, "this Mutex is locked")
	assert.NoError(t, locked.Lease().Err())
	locked.Unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(assert.AnError)
	assert.ErrorIs(t, taker.TakeOver(ctx, h), assert.AnError)
	require.NoError(t, taker.TakeOver(t.Context(), h))
	assert.ErrorIs(t, taker.TakeOver(t.Context(), h), redimutex.ErrLocked)
	taker.Unlock()
	require.NoError(t, c.Close())
	assert.ErrorIs(t, taker.TakeOver(t.Context(), h), redimutex.ErrClosed)
}

func TestAHandoverIsTextThatIsCarriedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for i, key := range locktest.OddKeys {
		if len(key) > 1000 {
			continue
		}
		giver, taker := newMutex(t, s.Pool(), key, patient), newMutex(t, s.Pool(), key, patient)
		h := handOver(t, giver, time.Minute)
		job, err := json.Marshal(map[string]redimutex.Handover{"lock": h})
		require.NoError(t, err)
		var there map[string]redimutex.Handover
		require.NoError(t, json.Unmarshal(job, &there))
		require.NoError(t, taker.TakeOver(t.Context(), there["lock"]), i)
		taker.Unlock()
		text, err := h.MarshalText()
		require.NoError(t, err)
		require.NoError(t, h.UnmarshalText(append(bytes.Clone(text), "\r\n"...)))
		require.NoError(t, h.UnmarshalText(slices.Insert(bytes.Clone(text), 1+bytes.IndexByte(text, '.'), '\n')))
		again, err := h.MarshalText()
		require.NoError(t, err)
		require.Equal(t, text, again)
		for cut := range text {
			changed := bytes.Clone(text)
			changed[cut] ^= 1
			for _, broken := range [][]byte{text[:cut], changed} {
				before := h
				require.ErrorContains(t, h.UnmarshalText(broken), "this is no Handover", "%s", broken)
				require.Equal(t, before, h)
			}
		}
	}
}

func TestAHandoverIsHiddenWhereverItIsPrinted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var traced, logged bytes.Buffer
	say := func(e redimutex.Event) { fmt.Fprintf(&traced, "%v %+v\n", e.Err, e.Key) }
	logger := slog.New(slog.NewTextHandler(&logged, nil))
	opts := []redimutex.Option{patient, redimutex.WithLogger(logger), redimutex.WithTrace(&redimutex.Trace{Released: say, Acquired: say, GaveUp: say})}
	giver, taker := newMutex(t, s.Pool(), "k", opts...), newMutex(t, s.Pool(), "k", opts...)
	h := handOver(t, giver, time.Minute)
	secret := s.Get("k")
	text, err := h.MarshalText()
	require.NoError(t, err)
	locked := taker.TryLockContext(t.Context())
	require.NoError(t, taker.TakeOver(t.Context(), h))
	twice := giver.TakeOver(t.Context(), h)
	require.ErrorIs(t, twice, redimutex.ErrLost)
	logger.Info("handed over", "h", h)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("handed over", "h", h)
	type hidden struct{ h redimutex.Handover }
	var all bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t", "%T"} {
		fmt.Fprintf(&all, verb+verb+verb+verb, h, &h, []redimutex.Handover{h}, hidden{h})
	}
	fmt.Fprintln(&all, locked, twice, taker.Client().Locks(), giver.Client().Locks(), traced.String(), logged.String())
	assert.NotContains(t, all.String(), secret)
	assert.NotContains(t, all.String(), string(text))
	assert.Contains(t, logged.String(), "hidden")
	taker.Unlock()
}

func TestALockThatWasTakenOverIsNotKeptForReuse(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	reuse := redimutex.WithLeaseReuse(4 * time.Second)
	giver, taker := newMutex(t, s.Pool(), "k", reuse, patient), newMutex(t, s.Pool(), "k", reuse, patient)
	require.NoError(t, taker.TakeOver(t.Context(), handOver(t, giver, time.Minute)))
	require.NoError(t, taker.UnlockContext(t.Context()))
	assert.False(t, s.Exists("k"))
	require.NoError(t, giver.LockContext(t.Context(), time.Minute))
	giver.Unlock()
}

func TestTheTimeOfATakeOverIsTraced(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 1)
	h := handOver(t, all.Client(t).Mutex("k"), time.Minute)
	client := all.Client(t)
	var took, failed time.Duration
	defer client.Observe(&redimutex.Trace{
		Acquired: func(e redimutex.Event) { took = e.Wait },
		GaveUp:   func(e redimutex.Event) { failed = e.Wait },
	})()
	taker := client.Mutex("k")
	require.NoError(t, taker.TakeOver(t.Context(), h))
	taker.Unlock()
	assert.Positive(t, took)
	assert.Equal(t, took, client.Stats().WaitTime)
	require.ErrorIs(t, taker.TakeOver(t.Context(), h), redimutex.ErrLost)
	assert.Positive(t, failed)
}

func TestATakeOverIntoALockedMutexIsTraced(t *testing.T) {
	t.Parallel()
	all := locktest.Start(t, 1)
	h := handOver(t, all.Client(t).Mutex("k"), time.Minute)
	client := all.Client(t)
	var failed []error
	defer client.Observe(&redimutex.Trace{GaveUp: func(e redimutex.Event) { failed = append(failed, e.Err) }})()
	taker := client.Mutex("k")
	require.NoError(t, taker.TakeOver(t.Context(), h))
	defer taker.Unlock()
	err := taker.TakeOver(t.Context(), h)
	require.ErrorIs(t, err, redimutex.ErrLocked)
	assert.Equal(t, []error{err}, failed)
	assert.EqualValues(t, 1, client.Stats().Failed)
}

func TestAnUnlockBesideAHandOverIsAccepted(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t).Pool(), patient)
	for i := range 300 {
		m := client.Mutex(fmt.Sprint(i))
		l, err := m.Acquire(t.Context())
		require.NoError(t, err)
		var group sync.WaitGroup
		var ready atomic.Int32
		begin := func() {
			for ready.Add(1); ready.Load() < 2; {
			}
		}
		group.Go(func() {
			begin()
			_, _ = l.HandOver(t.Context(), time.Second) // it fails if the Unlock comes first
		})
		group.Go(func() {
			begin()
			assert.NoError(t, locktest.PanicOf(m.Unlock))
		})
		group.Wait()
	}
}

func TestHandOversOfAReleasedLeaseAtOnceAllSaySo(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t).Pool(), patient)
	l, err := client.Mutex("k").Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				_, err := l.HandOver(t.Context(), time.Second)
				assert.ErrorIs(t, err, redimutex.ErrUnlocked)
			}
		})
	}
	group.Wait()
}

func TestATakeOverThatTheServerRefusesLeavesTheHandoverGood(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	h := handOver(t, newMutex(t, s.Pool(), "k"), time.Minute)
	between := redistest.NewBetween(s.Pool())
	between.Set(func(redistest.Command) (any, error) { return nil, redis.Error("NOPERM no") })
	m := newMutex(t, between, "k")
	assert.ErrorContains(t, m.TakeOver(t.Context(), h), "NOPERM")
	assert.Nil(t, m.Lease())
	between.Set(nil)
	require.NoError(t, m.TakeOver(t.Context(), h))
	m.Unlock()
}

// Either the hand-over comes first, and one release after it is accepted; or a release comes first.
func TestOfReleasesBesideAHandOverExactlyOneSucceeds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", patient)
	const holds = 300
	var succeeded atomic.Int64
	for range holds {
		l, err := m.Acquire(t.Context())
		require.NoError(t, err)
		begin := make(chan struct{})
		var ends sync.WaitGroup
		ends.Go(func() {
			<-begin
			if _, err := l.HandOver(t.Context(), time.Minute); err != nil {
				assert.ErrorIs(t, err, redimutex.ErrUnlocked)
			}
		})
		for range 2 {
			ends.Go(func() {
				<-begin
				if err := l.Release(t.Context()); err == nil {
					succeeded.Add(1)
				} else {
					assert.ErrorIs(t, err, redimutex.ErrUnlocked)
				}
			})
		}
		close(begin)
		ends.Wait()
		s.Do("DEL", "k")
	}
	assert.EqualValues(t, holds, succeeded.Load())
}
