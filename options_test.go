package redimutex_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestNonsensePanicsWithTheValueAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	pool := &redis.Pool{}
	with := func(opts ...redimutex.Option) func() { return func() { redimutex.New(pool, "k", opts...) } }
	for sentence, f := range map[string]func(){
		"WithTTL(0s): a lease has to last 10ms at least":                                    with(redimutex.WithTTL(0)),
		"WithTTL(-1s): a lease has to last 10ms at least":                                   with(redimutex.WithTTL(-time.Second)),
		"WithTTL(9.999999ms): a lease has to last 10ms at least":                            with(redimutex.WithTTL(10*time.Millisecond - 1)),
		"WithPollInterval(50ns): has to be 1ms at least":                                    with(redimutex.WithPollInterval(50)),
		"WithPollInterval(-1s)":                                                             with(redimutex.WithPollInterval(-time.Second)),
		"WithNodeTimeout(500ns): has to be 1ms at least, and less than the TTL":             with(redimutex.WithNodeTimeout(500)),
		"WithNodeTimeout(1m0s): has to be less than the TTL, which is 10s":                  with(redimutex.WithNodeTimeout(time.Minute)),
		"WithMaxAttempts(0): has to be 1 at least":                                          with(redimutex.WithMaxAttempts(0)),
		"WithMaxAttempts(-3): has to be 1 at least":                                         with(redimutex.WithMaxAttempts(-3)),
		"WithMaxHold(30ns): has to be 1ms at least":                                         with(redimutex.WithMaxHold(30)),
		"WithMaxHold(-1ns): has to be 1ms at least":                                         with(redimutex.WithMaxHold(-1)),
		"WithMinHold(5ns): has to be 0, for none, or from 1ms to 100 years":                 with(redimutex.WithMinHold(5)),
		"WithMinHold(876001h0m0s): has to be 0, for none, or from 1ms to 100 years":         with(redimutex.WithMinHold(876001 * time.Hour)),
		"WithMinHold(1m0s): has to be at most WithMaxHold, which is 1s":                     with(redimutex.WithMinHold(time.Minute), redimutex.WithMaxHold(time.Second)),
		"WithOwner: the label has 257 bytes, 256 are allowed":                               with(redimutex.WithOwner(strings.Repeat("x", 257))),
		`WithOwner("a\nb"): the label has a control character`:                              with(redimutex.WithOwner("a\nb")),
		"WithBackoff: the function is nil":                                                  with(redimutex.WithBackoff(nil)),
		"Linear(0s): the step has to be more than 0":                                        func() { redimutex.Linear(0) },
		"Exponential(0s, 1s): the first wait has to be more than 0 and at most the limit":   func() { redimutex.Exponential(0, time.Second) },
		"Exponential(1m0s, 1s): the first wait has to be more than 0 and at most the limit": func() { redimutex.Exponential(time.Minute, time.Second) },
		"Jittered: the function is nil":                                                     func() { redimutex.Jittered(nil) },
		"an Option is nil":                                                                  with(nil),
		"the key of a Mutex is empty":                                                       func() { redimutex.New(pool, "") },
		"pool 0 is nil":                                                                     func() { redimutex.New(nil, "k") },
		"pool 1 is nil":                                                                     func() { redimutex.NewRedlock([]redimutex.Pool{pool, (*redis.Pool)(nil)}, "k") },
		"pool 2 is there twice, and each has to be that of another server":                  func() { redimutex.NewRedlock([]redimutex.Pool{pool, new(redis.Pool), pool}, "k") },
		"pool 2 is nil": func() { redimutex.NewRedlock([]redimutex.Pool{pool, new(redis.Pool), poolFunc(nil)}, "k") },
		"WithLeaseReuse(0s): has to be more than 0":                                  with(redimutex.WithLeaseReuse(0)),
		"WithReplicas(0, 1s): has to be 1 replica and 1 ms at least":                 with(redimutex.WithReplicas(0, time.Second)),
		"WithReplicas(1, 999µs): has to be 1 replica and 1 ms at least":              with(redimutex.WithReplicas(1, 999*time.Microsecond)),
		"WithMultiplexing(0): has to be from 1 to 1000":                              with(redimutex.WithMultiplexing(0)),
		"WithMultiplexing(9223372036854775807): has to be from 1 to 1000":            with(redimutex.WithMultiplexing(math.MaxInt)),
		"NewClient needs a pool for each server, and got none":                       func() { redimutex.NewClient(nil) },
		"NewClient got 65 pools, and takes 64 at most":                               func() { redimutex.NewClient(make([]redimutex.Pool, 65)) },
		"WithLeaseReuse(2562047h47m16.854775807s): has to be less than half the TTL": with(redimutex.WithLeaseReuse(math.MaxInt64)),
		"WithReplicas: its timeout, 2562047h47m16.854775807s":                        with(redimutex.WithReplicas(1, math.MaxInt64)),
		"WithTTL(1s): a lease has to last":                                           nil,
	} {
		if f == nil {
			with(redimutex.WithTTL(time.Second))() // allowed
			continue
		}
		assert.ErrorContains(t, panicOf(f), "redimutex: "+sentence)
	}
}

// A poolFunc makes a function a Pool, as http.HandlerFunc makes one a Handler.
type poolFunc func() redis.Conn

func (f poolFunc) Get() redis.Conn { return f() }

func TestNonsenseOfAMutexPanicsToo(t *testing.T) {
	t.Parallel()
	client := newClient(t, &redis.Pool{}, redimutex.WithNodeTimeout(time.Second))
	assert.ErrorContains(t, panicOf(func() { client.Mutex("") }), "empty")
	assert.ErrorContains(t, panicOf(func() { client.Mutex("k", redimutex.WithTTL(time.Millisecond)) }), "WithTTL(1ms)")
	assert.ErrorContains(t, panicOf(func() { client.Mutex("k", redimutex.WithTTL(time.Second)) }), "WithNodeTimeout(1s)")
}

func TestAReuseThatFencingTurnsOffContradictsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, s.Pool(), redimutex.WithLeaseReuse(time.Second))
	m := client.Mutex("k", redimutex.WithFencing(), redimutex.WithMinHold(time.Minute))
	m.Lock()
	m.Unlock()
	assert.Greater(t, s.PTTL("k"), 30*time.Second)
}

func TestALockMayHaveNoMinimumHoldWhereItsClientHasOne(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newClient(t, s.Pool(), redimutex.WithMinHold(time.Minute)).Mutex("k", redimutex.WithMinHold(0))
	m.Lock()
	m.Unlock()
	assert.False(t, s.Exists("k"))
}

// The last errors of the servers are more useful than the news that all tries failed.
func TestTriesThatAreUsedUpOnServersThatDoNotAnswerAreNoSignOfAHolder(t *testing.T) {
	t.Parallel()
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, errors.New("cable cut") }}
	m := newMutex(t, pool, "k", redimutex.WithMaxAttempts(3), redimutex.WithPollInterval(time.Millisecond))
	err := m.LockContext(t.Context(), 0)
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
	require.ErrorContains(t, err, "cable cut")
	assert.NotErrorIs(t, err, redimutex.ErrLocked)
}

func TestAQueueOverSeveralServersPanics(t *testing.T) {
	t.Parallel()
	pools := []redimutex.Pool{&redis.Pool{}, &redis.Pool{}, &redis.Pool{}}
	assert.ErrorContains(t, panicOf(func() { redimutex.NewClient(pools, redimutex.WithQueue()) }), "waiters poll")
	client := newClientOver(t, pools)
	assert.ErrorContains(t, panicOf(func() { client.Mutex("k", redimutex.WithQueue()) }), "WithPollInterval")
}

func TestSmallestTTLWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(10*time.Millisecond))
		m.Lock()
		time.Sleep(time.Second)
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

func TestBackoffs(t *testing.T) {
	t.Parallel()
	linear := redimutex.Linear(100 * time.Millisecond)
	assert.Equal(t, 100*time.Millisecond, linear(1))
	assert.Equal(t, time.Second, linear(10))
	assert.Equal(t, time.Duration(math.MaxInt64), linear(math.MaxInt), "and does not overflow")

	exponential := redimutex.Exponential(10*time.Millisecond, time.Second)
	for attempt, want := range map[int]time.Duration{1: 10, 2: 20, 3: 40, 7: 640, 8: 1000, 9: 1000, 1 << 30: 1000} {
		assert.Equal(t, want*time.Millisecond, exponential(attempt))
	}
	assert.Equal(t, time.Duration(math.MaxInt64), redimutex.Exponential(1, math.MaxInt64)(1000))

	least, most := time.Hour, time.Duration(0)
	jittered := redimutex.Jittered(func(int) time.Duration { return time.Second })
	for range 1000 {
		d := jittered(1)
		least, most = min(least, d), max(most, d)
	}
	assert.GreaterOrEqual(t, least, 500*time.Millisecond)
	assert.Less(t, most, 1500*time.Millisecond)
	assert.Greater(t, most-least, 800*time.Millisecond)
	assert.Zero(t, redimutex.Jittered(func(int) time.Duration { return 0 })(1))
	for _, longest := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64/3*2 + 2} {
		for range 1000 {
			d := redimutex.Jittered(func(int) time.Duration { return longest })(1)
			assert.GreaterOrEqual(t, d, longest/2, "and does not overflow")
		}
	}
}

// tries records the times of the failed tries of a Mutex, in virtual time.
func tries(at *[]time.Duration) redimutex.Option {
	began := time.Now()
	return redimutex.WithTrace(&redimutex.Trace{Attempt: func(redimutex.Event) { *at = append(*at, time.Since(began)) }})
}

func TestTheBackoffIsAskedOnlyForAWaitThatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		var asked []int
		m := newMutex(t, pool, "k", redimutex.WithMaxAttempts(4), redimutex.WithBackoff(func(attempt int) time.Duration {
			asked = append(asked, attempt)
			return time.Millisecond
		}))
		require.NoError(t, m.LockContext(t.Context(), 0))
		require.NoError(t, m.UnlockContext(t.Context()))
		assert.Empty(t, asked, "the lock was free")

		require.NoError(t, server.Set("k", "foreign"))
		assert.ErrorIs(t, m.LockContext(t.Context(), 0), redimutex.ErrLocked)
		assert.Equal(t, []int{1, 2, 3}, asked, "no wait follows the last try")
	})
}

// While it waits, it keeps the other side out, even from a lock that is free.
func TestAWaiterOfAnRWMutexTriesOnceASecondAtLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		require.NoError(t, server.Set("k", "foreign"))
		for _, slow := range []redimutex.Option{
			redimutex.WithPollInterval(time.Minute), redimutex.WithBackoff(redimutex.Linear(time.Hour)),
		} {
			var at []time.Duration
			m := newClient(t, pool, slow, tries(&at), redimutex.WithMaxAttempts(3)).RWMutex("k")
			assert.ErrorIs(t, m.LockContext(t.Context(), 0), redimutex.ErrLocked)
			assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, at)
			assert.ErrorIs(t, m.RLockContext(t.Context(), 0), redimutex.ErrLocked)
			assert.Len(t, at, 6)
		}
	})
}

func TestWaitersTryAsTheirBackoffSays(t *testing.T) {
	for name, c := range map[string]struct {
		options []redimutex.Option
		want    []time.Duration // in ms
	}{
		"poll interval":     {nil, []time.Duration{0, 50, 100, 150}},
		"own poll interval": {[]redimutex.Option{redimutex.WithPollInterval(time.Second)}, []time.Duration{0, 1000, 2000, 3000}},
		"longer than the TTL": {
			[]redimutex.Option{redimutex.WithPollInterval(time.Minute)},
			[]time.Duration{0, 60_000, 120_000, 180_000},
		},
		"own poll interval in place of the backoff of the Client": {
			[]redimutex.Option{redimutex.WithBackoff(redimutex.Linear(time.Minute)), redimutex.WithPollInterval(time.Second)},
			[]time.Duration{0, 1000, 2000, 3000},
		},
		"linear": {[]redimutex.Option{redimutex.WithBackoff(redimutex.Linear(100 * time.Millisecond))}, []time.Duration{0, 100, 300, 600}},
		"exponential": {
			[]redimutex.Option{redimutex.WithBackoff(redimutex.Exponential(100*time.Millisecond, 300*time.Millisecond))},
			[]time.Duration{0, 100, 300, 600},
		},
		"negative": {[]redimutex.Option{redimutex.WithBackoff(func(int) time.Duration { return -time.Hour })}, []time.Duration{0, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, pool := redistest.Virtual(t)
				require.NoError(t, server.Set("k", "foreign"))
				var at []time.Duration
				m := newMutex(t, pool, "k", append(c.options, tries(&at), redimutex.WithMaxAttempts(4))...)
				err := m.LockContext(t.Context(), 0)
				assert.ErrorIs(t, err, redimutex.ErrLocked)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
				require.Len(t, at, 4)
				for i, want := range c.want {
					assert.Equal(t, want*time.Millisecond, at[i])
				}
			})
		})
	}
}

func TestTenTriesWithGrowingDelaysGiveUpAfterFourAndAHalfSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		require.NoError(t, server.Set("k", "foreign"))
		m := newMutex(t, pool, "k", redimutex.WithBackoff(redimutex.Linear(100*time.Millisecond)), redimutex.WithMaxAttempts(10))
		began := time.Now()
		require.ErrorIs(t, m.LockContext(t.Context(), 0), redimutex.ErrLocked)
		assert.Equal(t, 4500*time.Millisecond, time.Since(began), "100 ms, 200 ms and so on, to 900 ms")
	})
}

func TestMaxAttemptsCountsForLocalWaitersToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		client := newClient(t, pool, redimutex.WithMaxAttempts(10), redimutex.WithBackoff(redimutex.Linear(100*time.Millisecond)))
		m := client.Mutex("k")
		m.Lock()
		began := time.Now()
		for _, lock := range []func() error{
			func() error { return client.Mutex("k").LockContext(t.Context(), 0) },
			func() error { return panicOf(client.Mutex("k").Lock) },
		} {
			assert.ErrorIs(t, lock(), redimutex.ErrLocked)
		}
		// Twice: 100 ms, 200 ms and so on until the tenth try. Whether a wait follows the last try does not matter.
		assert.WithinRange(t, time.Now(), began.Add(2*4500*time.Millisecond), began.Add(2*5500*time.Millisecond))
		m.Unlock()
		require.NoError(t, client.Mutex("k").LockContext(t.Context(), 0))
	})
}

// The waits of a goroutine in line count for WithMaxAttempts, but they are not tries of a server.
func TestTheNumberThatABackoffGetsIsThatOfTheTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		var mu sync.Mutex
		var numbers []int
		backoff := redimutex.WithBackoff(func(n int) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			numbers = append(numbers, n)
			return 100 * time.Millisecond
		})
		taken := func() []int {
			mu.Lock()
			defer mu.Unlock()
			all := numbers
			numbers = nil
			return all
		}
		client := newClient(t, pool, redimutex.WithMaxAttempts(100))
		first, second := client.Mutex("k"), client.Mutex("k", backoff)
		first.Lock()
		locked := make(chan error)
		go func() { locked <- second.LockContext(t.Context(), 0) }()
		time.Sleep(1950 * time.Millisecond)
		synctest.Wait()
		assert.Len(t, taken(), 20, "it waits in line")
		require.NoError(t, server.Set("k", "foreign"))
		assert.ErrorIs(t, first.UnlockContext(t.Context()), redimutex.ErrLost)
		time.Sleep(350 * time.Millisecond)
		synctest.Wait()
		tries := taken()
		assert.LessOrEqual(t, slices.Max(tries), 4)
		assert.Equal(t, 1, slices.Min(tries))
		server.Del("k")
		require.NoError(t, <-locked)
		second.Unlock()
	})
}

func TestOptionsOfAMutexComeOnTopOfTheClients(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := newClient(t, s.Pool(), redimutex.WithTTL(time.Minute), redimutex.WithOwner("client"))
	m := client.Mutex("a", redimutex.WithTTL(time.Hour))
	m.Lock()
	assert.Greater(t, s.PTTL("a"), 59*time.Minute)
	assert.Contains(t, s.Get("a"), " client")
	m.Unlock()
	m = client.Mutex("b")
	m.Lock()
	assert.LessOrEqual(t, s.PTTL("b"), time.Minute)
	m.Unlock()
}

// A counter is an slog.Handler that counts its records.
type counter struct {
	slog.Handler
	records atomic.Int64
	last    atomic.Pointer[string]
}

func newCounter() *counter { return &counter{Handler: slog.DiscardHandler} }

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }

func (c *counter) Handle(_ context.Context, r slog.Record) error {
	c.records.Add(1)
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += fmt.Sprint(" ", a); return true })
	c.last.Store(&text)
	return nil
}

func (c *counter) text() string {
	if p := c.last.Load(); p != nil {
		return *p
	}
	return ""
}

func TestServersThatFailAreLoggedOnceASecondForEachKey(t *testing.T) {
	for name, wait := range map[string]func(t *testing.T, m *redimutex.Mutex){
		"goroutines that wait": func(t *testing.T, m *redimutex.Mutex) {
			for range 10 {
				go m.LockContext(t.Context(), 0) //nolint:errcheck // it waits until the end of the test
			}
			time.Sleep(10500 * time.Millisecond)
		},
		"short waits, between which no caller waits": func(t *testing.T, m *redimutex.Mutex) {
			for range 105 {
				assert.Error(t, m.LockContext(t.Context(), 100*time.Millisecond))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, pool := redistest.Virtual(t)
				cut := redistest.NewBetween(pool)
				cut.Set(redistest.Cut)
				log := newCounter()
				client := newClient(t, cut, redimutex.WithLogger(slog.New(log)))
				wait(t, client.Mutex("k"))
				assert.LessOrEqual(t, log.records.Load(), int64(11))
				assert.GreaterOrEqual(t, log.records.Load(), int64(5))
				assert.Contains(t, log.text(), "key=k")
				assert.Contains(t, log.text(), "the connection was cut")
				before := log.records.Load()
				assert.Error(t, client.Mutex("another").LockContext(t.Context(), 100*time.Millisecond))
				assert.Greater(t, log.records.Load(), before, "of another key at once")
			})
		})
	}
}

func TestContentionIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		require.NoError(t, server.Set("k", "foreign"))
		log := newCounter()
		m := newMutex(t, pool, "k", redimutex.WithLogger(slog.New(log)))
		assert.Error(t, m.LockContext(t.Context(), time.Minute))
		assert.False(t, m.TryLock())
		assert.Zero(t, log.records.Load(), log.text())
	})
}

func TestWhatNoReturnValueCarriesIsLogged(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	log := newCounter()
	pool := redistest.NewBetween(s.Pool())
	client := newClient(t, pool, redimutex.WithLogger(slog.New(log)))
	m := client.Mutex("k")

	m.Lock()
	s.Do("DEL", "k")
	m.Unlock()
	assert.EqualValues(t, 1, log.records.Load())
	assert.Contains(t, log.text(), "lease lost: deleted")

	pool.Set(redistest.Cut)
	assert.False(t, m.TryLock())
	assert.EqualValues(t, 2, log.records.Load())
	assert.Contains(t, log.text(), "TryLock")

	pool.Set(nil)
	require.NoError(t, m.Do(t.Context(), func(context.Context) error {
		pool.Set(redistest.Cut)
		return nil
	}), "the key expires, and what f did was protected")
	assert.EqualValues(t, 3, log.records.Load())
	assert.Contains(t, log.text(), "Do")
	pool.Set(nil)
}

// A caller that meets a hanging server waits for it no longer than a person would, whatever the TTL is.
func TestDefaultNodeTimeoutIsThreeSecondsAtMost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", redimutex.WithTTL(time.Hour)) // a twentieth would be three minutes
	require.NoError(t, m.TryLockContext(context.Background()))
	require.NoError(t, m.UnlockContext(context.Background()))
	s.Pause()
	defer s.Resume()
	began := time.Now()
	require.ErrorIs(t, m.TryLockContext(context.Background()), redimutex.ErrUnavailable)
	assert.Greater(t, time.Since(began), 2900*time.Millisecond)
	assert.Less(t, time.Since(began), 30*time.Second)
}
