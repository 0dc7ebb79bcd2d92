package redimutex_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Only the Mutex protects the counter, so the race detector checks that Unlock happens before the next Lock.
func TestUnlockHappensBeforeTheNextLock(t *testing.T) {
	t.Parallel()
	m := newMutex(t, redistest.Start(t).Pool(), "k")
	counter := 0
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			for range 3 {
				m.Lock()
				counter++
				m.Unlock()
			}
		})
	}
	group.Wait()
	assert.Equal(t, 600, counter)
}

func TestTwoMutexesOfAKeyExcludeEachOther(t *testing.T) {
	t.Parallel()
	pool := redistest.Start(t).Pool()
	client := newClient(t, pool)
	same, other := client.Mutex("k"), newMutex(t, pool, "k")
	for _, second := range []*redimutex.Mutex{client.Mutex("k"), other} {
		same.Lock()
		assert.False(t, second.TryLock())
		require.ErrorIs(t, second.TryLockContext(t.Context()), redimutex.ErrLocked)
		same.Unlock()
		assert.True(t, second.TryLock())
		assert.False(t, same.TryLock())
		second.Unlock()
	}
	free := client.Mutex("another key")
	same.Lock()
	assert.True(t, free.TryLock())
	free.Unlock()
	same.Unlock()
}

func TestGoroutinesOfAClientAreServedInOrderOfArrival(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t).Pool())
	mutexes := []*redimutex.Mutex{client.Mutex("k"), client.Mutex("k", redimutex.WithOwner("b"))}
	mutexes[0].Lock()
	var order []int // the lock protects it
	var group sync.WaitGroup
	for i := range 50 {
		m := mutexes[i%2]
		group.Go(func() {
			m.Lock()
			order = append(order, i)
			m.Unlock()
		})
		locktest.WaitInLine(t, client, i+1)
	}
	mutexes[0].Unlock()
	group.Wait()
	for i, got := range order {
		assert.Equal(t, i, got)
	}
	assert.Len(t, order, 50)
}

func TestEveryHoldHasAnUUIDOfItsOwn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	seen := make(map[string]bool)
	for range 20 {
		m.Lock()
		token := m.Lease().Token()
		id, err := uuid.Parse(token)
		require.NoError(t, err)
		assert.EqualValues(t, 4, id.Version())
		assert.Equal(t, token, s.Get("k"), "the value of the key is the token, and the key is the caller's")
		assert.False(t, seen[token])
		seen[token] = true
		m.Unlock()
	}
}

func TestOwnersLabelIsInTheToken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", redimutex.WithOwner("host-1 pid 7"), redimutex.WithTTL(time.Minute))
	m.Lock()
	defer m.Unlock()
	id, label, _ := strings.Cut(s.Get("k"), " ")
	require.NoError(t, uuid.Validate(id))
	assert.Equal(t, "host-1 pid 7", label)

	var locked *redimutex.LockedError
	require.ErrorAs(t, newMutex(t, s.Pool(), "k").TryLockContext(t.Context()), &locked)
	assert.InDelta(t, 30*time.Second, locked.Left, float64(30*time.Second))
	assert.Equal(t, &redimutex.LockedError{Key: "k", Owner: "host-1 pid 7", Left: locked.Left}, locked)
}

// Each of the options has a script of its own for the release.
func TestUnlockNeverDeletesAnotherHoldersKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for key, opts := range map[string][]redimutex.Option{
		"plain": nil, "queue": {redimutex.WithQueue()}, "fencing": {redimutex.WithFencing()}, "min hold": {redimutex.WithMinHold(time.Minute)},
	} {
		m := newMutex(t, s.Pool(), key, append(opts, redimutex.WithoutRenewal())...)
		m.Lock()
		s.Do("SET", key, "another holder", "PX", 3_600_000)
		err := m.UnlockContext(t.Context())
		require.ErrorIs(t, err, redimutex.ErrLost, key)
		var lost *redimutex.LostError
		require.ErrorAs(t, err, &lost)
		assert.Equal(t, &redimutex.LostError{Key: key, Reason: redimutex.Taken}, lost)
		assert.Equal(t, "another holder", s.Get(key))
		assert.Greater(t, s.PTTL(key), 59*time.Minute, key)
	}
}

// If SETNX and EXPIRE were two commands, the key would have no TTL in between. A reader could see that, and the list of
// executed commands would show it.
func TestLockKeyHasATTLFromTheFirstMoment(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	monitor := s.Monitor()
	client := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithNodeTimeout(4*time.Second)) // with the default TTL
	defer client.Close()
	stop, polls := make(chan struct{}), int64(0)
	var poller sync.WaitGroup
	poller.Go(func() {
		c := s.Pool().Get()
		defer c.Close()
		for !ended(stop) {
			ms, err := redis.Int64(c.Do("PTTL", "k"))
			assert.NoError(t, err)
			assert.NotEqualValues(t, -1, ms, "the key has no TTL")
			polls++
		}
	})
	m := client.Mutex("k")
	for range 200 {
		m.Lock()
		m.Unlock()
	}
	close(stop)
	poller.Wait()
	sets := monitor.Executed("SET", "k")
	assert.Len(t, sets, 200)
	for _, line := range sets {
		assert.Contains(t, strings.ToUpper(line), `"PX" "10000"`)
	}
	assert.Empty(t, monitor.Executed("SETNX", "k"))
	assert.Empty(t, monitor.Executed("EXPIRE", "k"))
	assert.Positive(t, polls)
}

func TestTenThousandLocalWaitersCostOnePoller(t *testing.T) {
	s := redistest.Start(t)
	monitor := s.Monitor()
	holder := newMutex(t, s.Pool(), "k")
	holder.Lock()
	client := newClient(t, s.Pool())
	m := client.Mutex("k")
	idle := goroutines()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 10_000 {
		group.Go(func() { assert.ErrorIs(t, m.LockContext(ctx, 0), context.Canceled) })
	}
	locktest.WaitInLine(t, client, 10_000)
	began, before := time.Now(), monitor.Requests("k")
	redistest.Wait(t, "20 polls", func() bool { return monitor.Requests("k") >= before+20 })
	// 19 polls take at least 19 intervals of 50 ms. The holder's renewals count as requests, too.
	assert.GreaterOrEqual(t, time.Since(began), 700*time.Millisecond, "20 requests to the server came too fast")
	assert.LessOrEqual(t, goroutines()-idle, 10, "goroutines of the library")
	cancel()
	group.Wait()
	assert.Zero(t, client.Stats().Waiting)
	holder.Unlock()
	assert.True(t, m.TryLock(), "the queue is in order after all have gone")
	m.Unlock()
}

func TestAnyGoroutineMayUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	m.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Unlock()
	}()
	<-done
	assert.False(t, s.Exists("k"))
	assert.Nil(t, m.Lease())
}

func TestCondWorksInsideAProcess(t *testing.T) {
	t.Parallel()
	m := newMutex(t, redistest.Start(t).Pool(), "k")
	cond := sync.NewCond(m)
	ready, woken := false, 0
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			m.Lock()
			for !ready {
				cond.Wait()
			}
			woken++
			m.Unlock()
		})
	}
	m.Lock()
	ready = true
	cond.Broadcast()
	m.Unlock()
	group.Wait()
	assert.Equal(t, 5, woken)
}

func TestForeignClientOfTheCommonProtocolSharesTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	const compareAndDelete = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

	m.Lock()
	assert.Nil(t, s.Do("SET", "k", "foreign", "NX", "PX", "60000"), "it must not get our lock")
	m.Unlock()

	require.Equal(t, "OK", s.Do("SET", "k", "foreign", "NX", "PX", "60000"))
	err := m.TryLockContext(t.Context())
	require.ErrorIs(t, err, redimutex.ErrLocked)
	var locked *redimutex.LockedError
	require.ErrorAs(t, err, &locked)
	assert.Empty(t, locked.Owner, "a foreign token has no label")
	got := make(chan error)
	go func() { got <- m.LockContext(t.Context(), 0) }()
	assert.EqualValues(t, 1, s.Do("EVAL", compareAndDelete, 1, "k", "foreign"))
	require.NoError(t, <-got)
	assert.EqualValues(t, 0, s.Do("EVAL", compareAndDelete, 1, "k", "foreign"), "it must not delete our lock")
	assert.EqualValues(t, 1, s.Do("EVAL", compareAndDelete, 1, "k", m.Lease().Token()), "an operator can")
	assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)

	s.Do("SET", "k", "for ever")
	assert.ErrorContains(t, m.TryLockContext(t.Context()), "never expires")
}

func TestErrorsSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	for text, err := range map[string]error{
		`redimutex: "k": locked by another holder`:                                    &redimutex.LockedError{Key: "k"},
		`redimutex: "k": locked by another holder, me`:                                &redimutex.LockedError{Key: "k", Owner: "me"},
		`redimutex: "k": locked by another holder, for another 2s`:                    &redimutex.LockedError{Key: "k", Left: 2 * time.Second},
		`redimutex: "k": locked by another holder, me, for another 2s`:                &redimutex.LockedError{Key: "k", Owner: "me", Left: 2 * time.Second},
		`redimutex: "k": locked by another holder, with a key that never expires`:     &redimutex.LockedError{Key: "k", Left: -1},
		`redimutex: "k": locked by another holder, me, with a key that never expires`: &redimutex.LockedError{Key: "k", Owner: "me", Left: -1},
		`redimutex: "k": lease lost: taken`:                                           &redimutex.LostError{Key: "k", Reason: redimutex.Taken},
		`server 2: the connection was cut`:                                            &redimutex.NodeError{Node: 2, Err: redistest.ErrCut},
	} {
		assert.EqualError(t, err, text)
	}
	assert.NotErrorIs(t, &redimutex.LostError{Reason: redimutex.Taken}, redimutex.ErrClosed)
	assert.ErrorIs(t, &redimutex.LostError{Reason: redimutex.Closed}, redimutex.ErrClosed)
	assert.ErrorIs(t, &redimutex.NodeError{Err: redistest.ErrCut}, redistest.ErrCut)
	assert.NotErrorIs(t, &redimutex.LockedError{}, redimutex.ErrLost)
	var other *redimutex.LockedError
	assert.NotErrorAs(t, &redimutex.LostError{}, &other)
}

func TestAPrintedMutexShowsNoToken(t *testing.T) {
	t.Parallel()
	m := newMutex(t, redistest.Start(t).Pool(), "orders", redimutex.WithOwner("me"))
	assert.Equal(t, "orders", m.Key())
	m.Lock()
	defer m.Unlock()
	for _, format := range []string{"%v", "%+v", "%#v"} {
		assert.NotContains(t, fmt.Sprintf(format, m), m.Lease().Token()[:36])
	}
}

func TestAZeroMutexSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*redimutex.Mutex){
		"Lock": (*redimutex.Mutex).Lock, "Unlock": (*redimutex.Mutex).Unlock,
		"TryLock": func(m *redimutex.Mutex) { m.TryLock() },
		"Do": func(m *redimutex.Mutex) {
			_ = m.Do(t.Context(), func(context.Context) error { return nil })
		},
	} {
		assert.PanicsWithValue(t, "redimutex: a zero Mutex, RWMutex or Semaphore has no server: "+
			"make it by a method of a Client, or by New, NewRedlock, NewRWMutex or NewSemaphore",
			func() { use(new(redimutex.Mutex)) }, name)
	}
}

func TestAZeroClientPanicsInWords(t *testing.T) {
	for name, lock := range map[string]func(*redimutex.Client){
		"Mutex":     func(c *redimutex.Client) { c.Mutex("k") },
		"RWMutex":   func(c *redimutex.Client) { c.RWMutex("k") },
		"Semaphore": func(c *redimutex.Client) { c.Semaphore("k", 1) },
		"MutexAll":  func(c *redimutex.Client) { c.MutexAll([]string{"k"}) },
	} {
		for _, c := range []*redimutex.Client{nil, {}} {
			assert.PanicsWithValue(t, "redimutex: a zero Client has no server: make it by NewClient", func() { lock(c) }, name)
		}
	}
}

func TestIdleMutexCostsNoGoroutine(t *testing.T) {
	client := newClient(t, redistest.Start(t).Pool())
	redistest.Wait(t, "other tests to end what they began", func() bool { return goroutines() == 0 })
	held := make([]*redimutex.Mutex, 200)
	for i := range held {
		held[i] = client.Mutex(fmt.Sprint(i))
		held[i].Lock()
	}
	assert.LessOrEqual(t, goroutines(), 5, "one renewal for all, and not one goroutine each")
	for _, m := range held {
		m.Unlock()
	}
	redistest.Wait(t, "no goroutine without a hold", func() bool { return goroutines() == 0 })
	runtime.KeepAlive(held)
}

func TestAnUnlockWithoutAContextPanicsBeforeItChangesAnything(t *testing.T) {
	t.Parallel()
	m := newMutex(t, redistest.Start(t).Pool(), "k")
	m.Lock()
	var none context.Context
	assert.Panics(t, func() { m.UnlockContext(none) }) //nolint:errcheck // it panics before that
	assert.NoError(t, m.UnlockContext(t.Context()))
	rw := m.Client().RWMutex("rw")
	rw.RLock()
	assert.Panics(t, func() { rw.RUnlockContext(none) }) //nolint:errcheck // as above
	assert.NoError(t, rw.RUnlockContext(t.Context()))
}
