package redimutex_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestUnlockWorksOnAFullServer(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	m := newMutex(t, s.Pool(), "k")
	m.Lock()
	s.Do("CONFIG", "SET", "maxmemory", "1")
	assert.NoError(t, m.UnlockContext(t.Context()))
	assert.False(t, exists(t, s, "k"))
}

func TestUnlockReportsThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := redistest.NewBetween(s.Pool())
	m := newMutex(t, pool, "k")
	m.Lock()
	pool.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
	err := m.UnlockContext(t.Context())
	assert.ErrorIs(t, err, redimutex.ErrUnavailable)
	assert.ErrorIs(t, err, redistest.ErrCut)
	assert.NotErrorIs(t, err, redimutex.ErrLost)
	assert.Nil(t, m.Lease(), "unlocked all the same")
	pool.Set(nil)
	redistest.Wait(t, "the release to be repeated in the background", func() bool { return !exists(t, s, "k") })
}

func TestUnlockStopsWaitingWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := redistest.NewBetween(s.Pool())
	m := newMutex(t, pool, "k", redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(30*time.Second))
	m.Lock()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := make(chan struct{})
	pool.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
		cancel(cause)
		<-answer
		return run()
	})
	err := m.UnlockContext(ctx)
	assert.ErrorIs(t, err, cause)
	assert.Nil(t, m.Lease())
	pool.Set(nil)
	close(answer)
	redistest.Wait(t, "the release to go on in the background", func() bool { return !exists(t, s, "k") })
}

func TestUnlockWithACancelledContextDeletesTheKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	m := newMutex(t, s.Pool(), "k")
	require.NoError(t, m.LockContext(ctx, 0))
	cancel()
	require.NoError(t, m.UnlockContext(ctx))
	assert.False(t, exists(t, s, "k"))
}

func TestUnlockOverAColdPoolWithACancelledContextDeletesTheKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", s.Addr())
	}} // MaxIdle is 0, so every command dials
	m := newMutex(t, pool, "k")
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, m.LockContext(ctx, 0))
		cancel()
		require.NoError(t, m.UnlockContext(ctx))
		assert.False(t, exists(t, s, "k"))
	}
}
