package redimutex_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMutexAllHasItsKeysSortedEachOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool())
	given := []string{"c", "a", "b", "a"}
	m := c.MutexAll(given)
	assert.Equal(t, []string{"a", "b", "c"}, m.Keys())
	assert.Equal(t, "a", m.Key())
	assert.Equal(t, []string{"c", "a", "b", "a"}, given)
	m.Keys()[1] = "changed"
	l, err := m.Acquire(t.Context())
	require.NoError(t, err)
	assert.ElementsMatch(t, m.Keys(), s.Keys())
	for _, k := range m.Keys() {
		assert.Equal(t, l.Token(), s.Get(k))
		assert.Positive(t, s.PTTL(k))
	}
	infos := c.Locks()
	require.Len(t, infos, 1)
	assert.Equal(t, m.Keys(), infos[0].Keys)
	require.NoError(t, l.Release(t.Context()))
	assert.Empty(t, s.Keys())
	assert.Equal(t, []string{"k"}, c.Mutex("k").Keys())
	assert.Equal(t, []string{"k"}, c.MutexAll([]string{"k", "k"}).Keys())
}

func TestLocksTellsTheKeysAsTheyAre(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), patient)
	odd := c.MutexAll(locktest.OddKeys)
	require.NoError(t, odd.TryLockContext(t.Context()))
	single := c.Mutex("x\x00y")
	require.NoError(t, single.TryLockContext(t.Context()))
	require.NoError(t, c.MutexAll([]string{"x", "y"}).TryLockContext(t.Context()), "another lock than that of x NUL y")
	infos := c.Locks()
	require.Len(t, infos, 3)
	keys := map[string][]string{}
	for _, info := range infos {
		keys[info.Key] = info.Keys
	}
	assert.Equal(t, map[string][]string{odd.Key(): odd.Keys(), "x": {"x", "y"}, "x\x00y": nil}, keys)
	assert.NoError(t, odd.UnlockContext(t.Context()))
}

func TestLocksNamesTheKeyThatAMutexAllWaitsFor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	here, there := newClient(t, s.Pool(), patient), newClient(t, s.Pool(), patient)
	held := there.Mutex("b")
	require.NoError(t, held.LockContext(t.Context(), 0))
	both, got := here.MutexAll([]string{"a", "b"}), make(chan error)
	go func() { got <- both.LockContext(t.Context(), 0) }()
	var locked *redimutex.LockedError
	redistest.Wait(t, "a try that failed", func() bool {
		infos := here.Locks()
		return len(infos) == 1 && errors.As(infos[0].Err, &locked)
	})
	assert.Equal(t, "b", locked.Key)
	require.NoError(t, held.UnlockContext(t.Context()))
	require.NoError(t, <-got)
	require.NoError(t, both.UnlockContext(t.Context()))
}

func TestMutexAllTakesAllKeysOrNone(t *testing.T) {
	t.Parallel()
	for name, servers := range map[string]int{"one server": 1, "three servers": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := locktest.Start(t, servers)
			here, there := all.Client(t, patient), all.Client(t, patient)
			both := here.MutexAll([]string{"a", "b"})
			for _, k := range both.Keys() {
				for _, c := range []*redimutex.Client{here, there} {
					single := c.Mutex(k)
					require.NoError(t, single.TryLockContext(t.Context()))
					require.ErrorIs(t, both.TryLockContext(t.Context()), redimutex.ErrLocked, "a Mutex excludes it")
					redistest.Wait(t, "no part of it is left", func() bool {
						return !slices.ContainsFunc(all, func(s *redistest.Server) bool { return len(s.Keys()) > 1 })
					})
					require.NoError(t, single.UnlockContext(t.Context()))
					redistest.Wait(t, "it has the lock", func() bool { return both.TryLockContext(t.Context()) == nil })
					require.ErrorIs(t, single.TryLockContext(t.Context()), redimutex.ErrLocked, "it excludes a Mutex")
					require.NoError(t, both.UnlockContext(t.Context()))
					for _, s := range all {
						redistest.Wait(t, "all keys are free", func() bool { return len(s.Keys()) == 0 })
					}
				}
			}
		})
	}
}

func TestOppositeOrdersNeverDeadlock(t *testing.T) {
	t.Parallel()
	for name, servers := range map[string]int{"one server": 1, "three servers": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := locktest.Start(t, servers)
			keys := []string{"a", "b", "c"}
			accounts := map[string]*atomic.Int64{"a": {}, "b": {}, "c": {}}
			var group sync.WaitGroup
			for i := range 4 {
				c := all.Client(t, redimutex.WithPollInterval(2*time.Millisecond))
				own := []string{keys[i%3], keys[(i+1)%3]}
				if i%2 == 1 {
					slices.Reverse(own)
				}
				for range 2 {
					group.Go(func() {
						for range 4 {
							assert.NoError(t, c.MutexAll(own).Do(t.Context(), func(context.Context) error {
								for _, k := range own {
									assert.EqualValues(t, 1, accounts[k].Add(1), k)
								}
								for _, k := range own {
									accounts[k].Add(-1)
								}
								return nil
							}))
						}
					})
				}
			}
			group.Wait()
			for _, s := range all {
				redistest.Wait(t, "nothing is left", func() bool { return len(s.Keys()) == 0 })
			}
		})
	}
}

func TestTheLossOfOneKeyIsTheLossOfAllAndTheErrorNamesIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), redimutex.WithTTL(1500*time.Millisecond), redimutex.WithNodeTimeout(time.Second))
	m := c.MutexAll([]string{"a", "b", "c"})
	for key, reason := range map[string]redimutex.Reason{"a": redimutex.Deleted, "c": redimutex.Deleted, "b": redimutex.Taken} {
		want := redimutex.LostError{Key: key, Reason: reason}
		lose := func() {
			if reason == redimutex.Taken {
				s.Do("SET", key, "another", "PX", "60000") // in one step: between two, a renewal would find it deleted
			} else {
				s.Do("DEL", key)
			}
		}
		for how, find := range map[string]func(*redimutex.Lease) error{
			"renewal": func(l *redimutex.Lease) error { <-l.Done(); return l.Err() },
			"Extend":  func(l *redimutex.Lease) error { return l.Extend(t.Context(), time.Minute) },
			"Release": func(l *redimutex.Lease) error { return l.Release(t.Context()) },
		} {
			l, err := m.Acquire(t.Context())
			require.NoError(t, err)
			lose()
			var lost *redimutex.LostError
			require.ErrorAs(t, find(l), &lost, how)
			assert.Equal(t, want, *lost, how)
			if how != "Release" { // the lease had ended before
				require.ErrorAs(t, l.Err(), &lost, how)
				assert.Equal(t, want, *lost, how)
			}
			_ = l.Release(t.Context())
			released := func() bool { return !slices.ContainsFunc(s.Keys(), func(k string) bool { return k != key }) }
			if how == "Release" {
				assert.True(t, released(), "by the answer, and not by their expiry")
			}
			redistest.Wait(t, "the others are released", released)
			s.Do("DEL", key)
		}
	}
}

func TestAnUnlockThatReportsALossReturnsWhenTheOtherKeysAreFree(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	between := redistest.NewBetween(s.Pool())
	c := newClient(t, between, redimutex.WithNodeTimeout(5*time.Second))
	m := c.MutexAll([]string{"a", "b", "c"})
	l, err := m.Acquire(t.Context())
	require.NoError(t, err)
	s.Do("DEL", "b")
	require.ErrorIs(t, l.Extend(t.Context(), time.Minute), redimutex.ErrLost)
	looked := make(chan struct{})
	between.Set(func(command redistest.Command) (any, error) {
		select { // an Unlock that does not wait would return within this time
		case <-looked:
		case <-time.After(200 * time.Millisecond):
		}
		return command.Run()
	})
	require.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
	assert.Empty(t, s.Keys())
	close(looked)
}

func TestTheFenceOfMutexAllIsAboveThoseOfItsKeysAndTheirsAfterwards(t *testing.T) {
	t.Parallel()
	for name, servers := range map[string]int{"one server": 1, "three servers": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := locktest.Start(t, servers)
			c := all.Client(t, redimutex.WithFencing())
			both := c.MutexAll([]string{"a", "b"})
			var last int64
			for range 3 {
				for _, m := range []*redimutex.Mutex{both, c.Mutex("b"), both, c.Mutex("a")} {
					l, err := m.Acquire(t.Context())
					require.NoError(t, err)
					assert.Greater(t, l.Fence(), last)
					last = l.Fence()
					require.NoError(t, l.Release(t.Context()))
				}
				for _, s := range all { // a counter that is ahead
					s.Do("SET", "redimutex:fence:{a}", last+1e9, "PX", "60000")
				}
				last += 1e9
			}
		})
	}
}

func TestMutexAllGetsWhatThisProcessKeepsForReuse(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool(), redimutex.WithLeaseReuse(4*time.Second), redimutex.WithQueue())
	single := c.Mutex("b")
	single.Lock()
	single.Unlock()
	require.True(t, s.Exists("b"), "it is kept")
	both := c.MutexAll([]string{"a", "b"})
	require.NoError(t, both.TryLockContext(t.Context()))
	both.Unlock()
	assert.Empty(t, s.Keys(), "and keeps nothing itself")
	single.Lock()
	single.Unlock()
}

func TestMutexAllPollsWhateverTheOptionsOfItsClient(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pools := []redimutex.Pool{s.Pool()}
	c := newClientOver(t, pools, redimutex.WithQueue(), redimutex.WithLeaseReuse(time.Millisecond))
	both := c.MutexAll([]string{"a", "b"})
	holder := newMutex(t, s.Pool(), "b")
	holder.Lock()
	got := make(chan error)
	go func() { got <- both.LockContext(t.Context(), time.Minute) }()
	redistest.Wait(t, "it waits", func() bool { return c.Stats().Waiting > 0 })
	assert.Equal(t, []string{"b"}, s.Keys(), "it waits in no queue, and holds nothing")
	var locked *redimutex.LockedError
	require.ErrorAs(t, newClientOver(t, pools).MutexAll([]string{"a", "b"}).TryLockContext(t.Context()), &locked)
	assert.Equal(t, "b", locked.Key)
	require.NoError(t, c.Mutex("a").TryLockContext(t.Context()), "nor a turn in this process")
	holder.Unlock()
	s.Do("DEL", "a")
	require.NoError(t, <-got)
	both.Unlock()

	for words, f := range map[string]func(){
		"WithQueue: a queue has the waiters of one key": func() { c.MutexAll([]string{"a", "b"}, redimutex.WithQueue()) },
		"WithLeaseReuse(1ms): a MutexAll keeps":         func() { c.MutexAll([]string{"a"}, redimutex.WithLeaseReuse(time.Millisecond)) },
		"MutexAll needs a key at least":                 func() { c.MutexAll(nil) },
		"the key of a MutexAll is empty":                func() { c.MutexAll([]string{"a", ""}) },
		"reserved for what belongs to locks":            func() { c.MutexAll([]string{"a", "redimutex:b"}) },
	} {
		assert.ErrorContains(t, panicOf(f), words)
	}
}

func TestACallInADoThatHoldsOneOfItsKeysIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Pool())
	both := c.MutexAll([]string{"a", "b"})
	require.NoError(t, both.Do(t.Context(), func(ctx context.Context) error {
		for _, m := range []*redimutex.Mutex{c.Mutex("b"), c.MutexAll([]string{"b", "c"}), both} {
			err := m.LockContext(ctx, time.Minute)
			assert.ErrorIs(t, err, redimutex.ErrLocked)
			assert.ErrorContains(t, err, "nested")
		}
		inside := c.Mutex("b", redimutex.WithReentrancy())
		assert.NoError(t, inside.Do(ctx, func(context.Context) error { return nil }))
		more := c.MutexAll([]string{"b", "c"}, redimutex.WithReentrancy())
		err := more.Do(ctx, func(context.Context) error { return errors.New("inside without c") })
		assert.ErrorContains(t, err, "nested", "it can't run inside a hold that lacks a key")
		return nil
	}))
}

func TestKeysInDifferentSlotsAreAnErrorThatSaysHowToTagThem(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, "--cluster-enabled", "yes")
	s.ServeAlone()
	c := newClient(t, s.Pool())
	err := c.MutexAll([]string{"a", "b"}).LockContext(t.Context(), time.Minute)
	assert.ErrorContains(t, err, "give them a {tag} in common")
	assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
	m := c.MutexAll([]string{"1{a}", "2{a}"})
	require.NoError(t, m.LockContext(t.Context(), time.Minute))
	require.NoError(t, m.UnlockContext(t.Context()))
}
