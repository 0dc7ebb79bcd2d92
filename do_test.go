package redimutex_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestDoHoldsTheLockAndUnlocks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	type name struct{}
	wanted := errors.New("what f returned")
	for _, do := range []func(context.Context, func(context.Context) error) error{m.Do, m.TryDo} {
		var inner context.Context
		err := do(context.WithValue(t.Context(), name{}, "value"), func(ctx context.Context) error {
			inner = ctx
			assert.True(t, exists(t, s, "k"))
			assert.Equal(t, "value", ctx.Value(name{}))
			assert.NoError(t, ctx.Err())
			return wanted
		})
		assert.Equal(t, wanted, err, "the error of f is handed on as it is")
		assert.False(t, exists(t, s, "k"))
		assert.ErrorIs(t, context.Cause(inner), redimutex.ErrUnlocked)
		require.NoError(t, do(t.Context(), func(context.Context) error { return nil }))
	}
}

func TestDoUnlocksWhenFPanics(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	for _, do := range []func(context.Context, func(context.Context) error) error{m.Do, m.TryDo} {
		assert.ErrorContains(t, panicOf(t, func() {
			_ = do(t.Context(), func(context.Context) error { panic("of f") })
		}), "of f")
		assert.False(t, exists(t, s, "k"))
		assert.Nil(t, m.Lease())
	}
}

func TestDoTellsALossByContextAndError(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k", redimutex.WithTTL(2*time.Second), redimutex.WithNodeTimeout(time.Second))
	wanted := errors.New("what f returned")
	err := m.Do(t.Context(), func(ctx context.Context) error {
		s.Do("DEL", "k")
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrLost)
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
		return wanted
	})
	assert.ErrorIs(t, err, wanted)
	var lost redimutex.LostError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, redimutex.Deleted, lost.Reason)
}

func TestDoDoesNotRunFWithoutTheLock(t *testing.T) {
	t.Parallel()
	pool := redistest.Start(t).Pool()
	client := newClient(t, []redimutex.Pool{pool})
	client.Mutex("k").Lock()
	never := func(context.Context) error { t.Error("f ran without the lock"); return nil }
	for _, m := range []*redimutex.Mutex{client.Mutex("k"), newMutex(t, pool, "k")} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, m.TryDo(t.Context(), never), redimutex.ErrLocked)
		assert.ErrorIs(t, m.Do(ctx, never), redimutex.ErrLocked)
	}
}

func TestDoReleasesWhenTheCallersContextEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	ctx, cancel := context.WithCancel(t.Context())
	err := m.Do(ctx, func(inner context.Context) error {
		cancel()
		<-inner.Done()
		return inner.Err()
	})
	assert.ErrorIs(t, err, context.Canceled)
	assert.False(t, exists(t, s, "k"))
}

func TestDoLetsFUnlock(t *testing.T) {
	t.Parallel()
	m := newMutex(t, redistest.Start(t).Pool(), "k")
	require.NoError(t, m.Do(t.Context(), func(context.Context) error {
		m.Unlock()
		return nil
	}))
}
