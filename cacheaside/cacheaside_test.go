package cacheaside_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cacheaside"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A world is an embedded server in virtual time, with a pool for it.
type world struct {
	t      *testing.T
	server *miniredis.Miniredis
	pool   *redis.Pool
}

// virtual runs test in virtual time, so that waits take no real time and have exact lengths.
func virtual(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, pool := redistest.Virtual(t)
		test(t, &world{t, m, pool})
		time.Sleep(5 * time.Second) // meanwhile reused goroutines end
	})
}

// client returns a Client like that of another process.
func (w *world) client(opts ...redimutex.Option) *redimutex.Client {
	c := redimutex.NewClient([]redimutex.Pool{w.pool}, opts...)
	w.t.Cleanup(func() { c.Close() })
	return c
}

func (w *world) store() *counting {
	return &counting{Store: cacheaside.NewRedisStore(w.pool, time.Minute)}
}

func (w *world) cache(opts ...cacheaside.Option) *cacheaside.Cache {
	return cacheaside.New(w.client(), w.store(), opts...)
}

// loading returns a loader that takes d and counts its runs.
func loading(value string, d time.Duration, runs *atomic.Int64) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		runs.Add(1)
		select {
		case <-time.After(d):
			return value, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// value returns a loader that takes no time.
func value(v string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return v, nil }
}

func unwanted(context.Context) (string, error) { return "", errors.New("this loader must not run") }

// fetches asserts that a caller gets that value for k.
func fetches(t *testing.T, cache *cacheaside.Cache, want string, load func(context.Context) (string, error)) {
	t.Helper()
	v, err := cacheaside.Fetch(t.Context(), cache, "k", load)
	assert.NoError(t, err)
	assert.Equal(t, want, v)
}

func TestAHitAsksNeitherTheLockNorTheLoader(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		require.NoError(t, w.server.Set("k", `"cached"`))
		client := w.client()
		fetches(t, cacheaside.New(client, w.store()), "cached", unwanted)
		assert.Zero(t, client.Stats().Acquired)
	})
}

func TestTheValueIsCachedBeforeTheLockIsGivenBack(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		var sawValue, sawLock bool
		client := w.client(redimutex.WithTrace(&redimutex.Trace{Released: func(redimutex.Event) { sawValue = w.server.Exists("k") }}))
		v, err := cacheaside.Fetch(t.Context(), cacheaside.New(client, w.store()), "k", func(context.Context) (string, error) {
			sawLock = w.server.Exists("k:lock")
			return "fresh", nil
		})
		require.NoError(t, err)
		assert.Equal(t, "fresh", v)
		assert.True(t, sawLock, "the loader ran without the lock")
		assert.True(t, sawValue, "the lock was given back before the value was cached")
		assert.False(t, w.server.Exists("k:lock"))
		assert.Equal(t, time.Minute, w.server.TTL("k"))
	})
}

func TestWaitersStopWaitingOnAHitAlthoughTheLockIsHeld(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		foreign := w.client().Mutex("k:lock")
		foreign.Lock()
		defer foreign.Unlock()
		time.AfterFunc(250*time.Millisecond, func() { w.server.Set("k", `"from elsewhere"`) })
		began := time.Now()
		fetches(t, w.cache(), "from elsewhere", unwanted)
		assert.Equal(t, 300*time.Millisecond, time.Since(began), "the third look is the first after the value came")
	})
}

func TestTheWinnerLooksAgainBeforeItLoads(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		// The value comes between the look and the lock.
		client := w.client(redimutex.WithTrace(&redimutex.Trace{Acquired: func(redimutex.Event) { w.server.Set("k", `"just in time"`) }}))
		fetches(t, cacheaside.New(client, w.store()), "just in time", unwanted)
	})
}

func TestCallersOfOneProcessShareTheirLooks(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		foreign := w.client().Mutex("k:lock")
		foreign.Lock()
		defer foreign.Unlock()
		store := w.store()
		cache := cacheaside.New(w.client(), store)
		var team sync.WaitGroup
		fetch := func() {
			fetches(t, cache, "v", unwanted)
		}
		team.Go(fetch)
		synctest.Wait()
		for range 999 {
			team.Go(fetch)
		}
		time.AfterFunc(1050*time.Millisecond, func() { w.server.Set("k", `"v"`) })
		team.Wait()
		assert.EqualValues(t, 12, store.looks.Load(), "one at first and one for each 100 ms, not one for each caller")
	})
}

func TestAFailingLoaderFailsItsCallerAndTheNextOneTries(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		cache := w.cache()
		broken := errors.New("no such table")
		var runs atomic.Int64
		var failed, served atomic.Int64
		var team sync.WaitGroup
		for range 10 {
			team.Go(func() {
				v, err := cacheaside.Fetch(t.Context(), cache, "k", func(context.Context) (string, error) {
					time.Sleep(10 * time.Millisecond)
					if runs.Add(1) <= 3 {
						return "", broken
					}
					return "v", nil
				})
				if err != nil {
					assert.ErrorIs(t, err, broken)
					failed.Add(1)
					return
				}
				assert.Equal(t, "v", v)
				served.Add(1)
			})
		}
		team.Wait()
		assert.EqualValues(t, 4, runs.Load())
		assert.EqualValues(t, 3, failed.Load())
		assert.EqualValues(t, 7, served.Load())
	})
}

func TestALoaderThatPanicsGivesTheLockAndTheLeadBack(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		cache := w.cache()
		assert.PanicsWithValue(t, "oh", func() {
			cacheaside.Fetch(t.Context(), cache, "k", func(context.Context) (string, error) { panic("oh") }) //nolint:errcheck // it panics
		})
		fetches(t, cache, "v", value("v"))
	})
}

func TestALoaderMayTakeLongerThanTheLockLives(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		var runs atomic.Int64
		var team sync.WaitGroup
		for range 3 {
			cache := cacheaside.New(w.client(redimutex.WithTTL(time.Second)), w.store())
			for range 5 {
				team.Go(func() {
					fetches(t, cache, "slow", loading("slow", 4*time.Second, &runs))
				})
			}
		}
		team.Wait()
		assert.EqualValues(t, 1, runs.Load())
	})
}

func TestCallersGiveUpWhenTheirTriesAreUsedUp(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		foreign := w.client(redimutex.WithOwner("the nightly import")).Mutex("k:lock")
		foreign.Lock()
		defer foreign.Unlock()
		cache := w.cache(cacheaside.WithMaxTries(4), cacheaside.WithInterval(50*time.Millisecond))
		var team sync.WaitGroup
		began := time.Now()
		for range 20 {
			team.Go(func() {
				_, err := cacheaside.Fetch(t.Context(), cache, "k", unwanted)
				assert.ErrorIs(t, err, redimutex.ErrLocked)
				assert.ErrorContains(t, err, "the nightly import")
				assert.ErrorContains(t, err, "4 tries")
			})
		}
		team.Wait()
		assert.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
		assert.LessOrEqual(t, time.Since(began), 250*time.Millisecond, "who takes the lead at the last moment waits once more")
	})
}

func TestTheLoadersContextEndsWithTheLease(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		time.AfterFunc(time.Second, func() { w.server.Del("k:lock") })
		var runs atomic.Int64
		_, err := cacheaside.Fetch(t.Context(), w.cache(), "k", loading("v", time.Hour, &runs))
		assert.ErrorIs(t, err, redimutex.ErrLost)
		assert.False(t, w.server.Exists("k"))
	})
}

func TestAValueIsNotCachedWhenTheLeaseWasLostWhileItWasLoaded(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		client := w.client(redimutex.WithTTL(time.Second), redimutex.WithoutRenewal())
		v, err := cacheaside.Fetch(t.Context(), cacheaside.New(client, w.store()), "k", func(context.Context) (string, error) {
			time.Sleep(2 * time.Second) // heeds no context
			require.NoError(t, w.server.Set("k", `"newer"`))
			return "older", nil
		})
		assert.ErrorIs(t, err, redimutex.ErrLost)
		assert.ErrorContains(t, err, "not cached")
		assert.Empty(t, v)
		cached, err := w.server.Get("k")
		require.NoError(t, err)
		assert.Equal(t, `"newer"`, cached)
	})
}

func TestTheEndOfTheContextEndsTheWaitOfThatCallerAlone(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		cache := w.cache()
		enough := errors.New("the user has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		var runs atomic.Int64
		var team sync.WaitGroup
		team.Go(func() { // leads
			_, err := cacheaside.Fetch(ctx, cache, "k", loading("abandoned", time.Second, &runs))
			assert.ErrorIs(t, err, enough)
		})
		synctest.Wait()
		team.Go(func() { // waits
			_, err := cacheaside.Fetch(ctx, cache, "k", unwanted)
			assert.ErrorIs(t, err, enough)
		})
		team.Go(func() { // stays
			fetches(t, cache, "v", loading("v", time.Second, &runs))
		})
		time.AfterFunc(300*time.Millisecond, func() { cancel(enough) })
		team.Wait()
		assert.EqualValues(t, 2, runs.Load())
		assert.False(t, w.server.Exists("k:lock"))
		_, err := cacheaside.Fetch(ctx, cache, "k", unwanted)
		assert.ErrorIs(t, err, enough, "also at once, with a hit in the cache")
	})
}

func TestEveryCallerGetsACopyOfItsOwn(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		cache := w.cache()
		original := map[string]int{"a": 1}
		var team sync.WaitGroup
		for range 5 {
			team.Go(func() {
				v, err := cacheaside.Fetch(t.Context(), cache, "k", func(context.Context) (map[string]int, error) {
					time.Sleep(time.Second)
					return original, nil
				})
				assert.NoError(t, err)
				v["a"]++
				assert.Equal(t, 2, v["a"])
			})
		}
		team.Wait()
		assert.Equal(t, 1, original["a"])
	})
}

func TestAServerThatIsAwayIsWaitedForAsLongAsALock(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		away := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, errors.New("no route") }}
		client := redimutex.NewClient([]redimutex.Pool{away})
		defer client.Close()
		cache := cacheaside.New(client, w.store(), cacheaside.WithMaxTries(3))
		began := time.Now()
		_, err := cacheaside.Fetch(t.Context(), cache, "k", unwanted)
		assert.ErrorIs(t, err, redimutex.ErrUnavailable)
		assert.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
	})
}

func TestErrorsOfTheLoadersOwnLocksAreNotTakenForOurs(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		var runs atomic.Int64
		_, err := cacheaside.Fetch(t.Context(), w.cache(), "k", func(context.Context) (string, error) {
			runs.Add(1)
			return "", redimutex.ErrLocked
		})
		assert.ErrorIs(t, err, redimutex.ErrLocked)
		assert.EqualValues(t, 1, runs.Load())
	})
}

func TestNonsensePanics(t *testing.T) {
	client := redimutex.NewClient([]redimutex.Pool{&redis.Pool{}})
	defer client.Close()
	store := cacheaside.NewRedisStore(&redis.Pool{}, time.Second)
	for name, f := range map[string]func(){
		"no client":       func() { cacheaside.New(nil, store) },
		"no store":        func() { cacheaside.New(client, nil) },
		"no pool":         func() { cacheaside.NewRedisStore(nil, time.Second) },
		"no TTL":          func() { cacheaside.NewRedisStore(&redis.Pool{}, 0) },
		"no interval":     func() { cacheaside.New(client, store, cacheaside.WithInterval(0)) },
		"no tries":        func() { cacheaside.New(client, store, cacheaside.WithMaxTries(0)) },
		"no option":       func() { cacheaside.New(client, store, nil) },
		"no name of lock": func() { cacheaside.New(client, store, cacheaside.WithLockKey(nil)) },
		"no loader": func() {
			_, _ = cacheaside.Fetch[int](t.Context(), cacheaside.New(client, store), "k", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() { assert.Contains(t, fmt.Sprint(recover()), "cacheaside: ") }()
			f()
		})
	}
}
