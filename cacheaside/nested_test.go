package cacheaside_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cacheaside"
)

func TestAFetchInsideADoOfItsLockRunsInsideThatHold(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		client := w.client(redimutex.WithReentrancy())
		cache := cacheaside.New(client, w.store())
		var team sync.WaitGroup
		err := client.Mutex("k:lock").Do(t.Context(), func(ctx context.Context) error {
			team.Go(func() { // leads the others of its process, and waits for the lock
				fetches(t, cache, "v", unwanted)
			})
			synctest.Wait()
			began := time.Now()
			v, err := cacheaside.Fetch(ctx, cache, "k", value("v"))
			assert.Equal(t, "v", v)
			assert.Zero(t, time.Since(began), "it waited for a goroutine that waits for its lock")
			return err
		})
		require.NoError(t, err)
		team.Wait()
		assert.EqualValues(t, 1, client.Stats().Acquired)
	})
}

// A cached value needs no lock, whatever the caller holds.
func TestAFetchInsideADoFindsACachedValueWithoutTheLock(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		client := w.client()
		cache := cacheaside.New(client, w.store())
		_, err := cacheaside.Fetch(t.Context(), cache, "k", value("v"))
		require.NoError(t, err)
		for _, key := range []string{"another", "k:lock"} {
			require.NoError(t, client.Mutex(key).Do(t.Context(), func(ctx context.Context) error {
				before := client.Stats()
				v, err := cacheaside.Fetch(ctx, cache, "k", unwanted)
				assert.Equal(t, "v", v)
				assert.Equal(t, before.Acquired+before.Failed, client.Stats().Acquired+client.Stats().Failed, key)
				return err
			}))
		}
	})
}

func TestALoaderMayFetchAnotherValueUnderTheSameLock(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		cache := cacheaside.New(w.client(redimutex.WithReentrancy()), w.store(),
			cacheaside.WithLockKey(func(string) string { return "all" }))
		v, err := cacheaside.Fetch(t.Context(), cache, "outer", func(ctx context.Context) (string, error) {
			inner, err := cacheaside.Fetch(ctx, cache, "inner", value("v"))
			return "the " + inner, err
		})
		require.NoError(t, err)
		assert.Equal(t, "the v", v)
		assert.True(t, w.server.Exists("inner"))
	})
}

func TestWithoutReentrancyAFetchUnderItsOwnLockIsAnErrorAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		client := w.client()
		cache := cacheaside.New(client, w.store(), cacheaside.WithLockKey(func(string) string { return "all" }))
		began := time.Now()
		_, err := cacheaside.Fetch(t.Context(), cache, "outer", func(ctx context.Context) (string, error) {
			return cacheaside.Fetch(ctx, cache, "inner", unwanted)
		})
		assert.Zero(t, time.Since(began), "it tried again, though it waits for itself")
		require.ErrorIs(t, err, redimutex.ErrLocked)
		require.ErrorContains(t, err, "WithReentrancy", "the remedy")
		err = client.Mutex("all").Do(t.Context(), func(ctx context.Context) error {
			_, err := cacheaside.Fetch(ctx, cache, "k", unwanted)
			return err
		})
		assert.Zero(t, time.Since(began))
		require.ErrorContains(t, err, "WithReentrancy")
	})
}

func TestAValueIsNotCachedWhenTheOuterHoldWasLostWhileItWasLoaded(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		client := w.client(redimutex.WithReentrancy(), redimutex.WithTTL(time.Second), redimutex.WithoutRenewal())
		var inner error
		err := client.Mutex("k:lock").Do(t.Context(), func(ctx context.Context) error {
			_, inner = cacheaside.Fetch(ctx, cacheaside.New(client, w.store()), "k", func(context.Context) (string, error) {
				time.Sleep(2 * time.Second) // heeds no context
				return "older", nil
			})
			return nil
		})
		require.ErrorIs(t, err, redimutex.ErrLost)
		require.ErrorIs(t, inner, redimutex.ErrLost)
		assert.False(t, w.server.Exists("k"))
	})
}

// A caller inside its own Do looks once by itself, and then shares the looks of the others.
func TestAFetchInsideADoOfAnotherLockWaitsAsAllDo(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		client := w.client()
		cache := cacheaside.New(client, w.store())
		var runs atomic.Int64
		var team sync.WaitGroup
		for _, own := range []string{"a", "b", "c"} {
			team.Go(func() {
				err := client.Mutex(own).Do(t.Context(), func(ctx context.Context) error {
					v, err := cacheaside.Fetch(ctx, cache, "k", loading("v", time.Second, &runs))
					assert.Equal(t, "v", v)
					return err
				})
				assert.NoError(t, err)
			})
		}
		team.Wait()
		assert.EqualValues(t, 1, runs.Load())
	})
}
