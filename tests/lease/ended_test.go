package lease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Once the release is sent, another process can have the lock, whenever this process hears of the answer.
func TestAHoldHasEndedBeforeItsReleaseIsSent(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*redimutex.Lease) error{
		"Release":  func(l *redimutex.Lease) error { return l.Release(t.Context()) },
		"HandOver": func(l *redimutex.Lease) error { _, err := l.HandOver(t.Context(), time.Minute); return err },
	} {
		b := redistest.NewBetween(redistest.Start(t).Pool())
		l, err := newClient(t, b, redimutex.WithoutRenewal()).Mutex("k").Acquire(t.Context())
		require.NoError(t, err)
		work := l.Context(t.Context())
		var sent, early atomic.Bool
		b.Set(func(command redistest.Command) (any, error) {
			if command.Name != "TIME" {
				sent.Store(true)
				early.Store(early.Load() || !locktest.Ended(l.Done()) || work.Err() == nil || l.Err() == nil)
			}
			return command.Run()
		})
		require.NoError(t, end(l), name)
		assert.True(t, sent.Load(), name)
		assert.False(t, early.Load(), name)
	}
}

func TestALossThatUnlockFindsIsItsErrorAndNotThatOfTheEndedHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var lost atomic.Int64
	c := newClient(t, s.Pool(), redimutex.WithoutRenewal(), redimutex.WithTrace(&redimutex.Trace{Lost: func(e redimutex.Event) {
		assert.ErrorIs(t, e.Err, redimutex.ErrLost)
		lost.Add(1)
	}}))
	l, err := c.Mutex("k").Acquire(t.Context())
	require.NoError(t, err)
	s.Do("DEL", "k")
	assert.ErrorIs(t, l.Release(t.Context()), redimutex.ErrLost)
	assert.ErrorIs(t, l.Err(), redimutex.ErrUnlocked)
	assert.EqualValues(t, 1, lost.Load())
	assert.EqualValues(t, 1, c.Stats().LostDeleted)
}

// The ctx of the hold ends before the release is sent, and does not bound it. The ctx of another hold does, as any ctx.
func TestAReleaseWithTheContextOfItsHoldWaitsForTheServer(t *testing.T) {
	t.Parallel()
	b := redistest.NewBetween(redistest.Start(t).Pool())
	c := newClient(t, b, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Minute))
	l, err := c.Mutex("k").Acquire(t.Context())
	require.NoError(t, err)
	child, stop := context.WithTimeout(l.Context(t.Context()), time.Hour)
	defer stop()
	require.NoError(t, l.Release(child))

	outer, err := c.Mutex("outer").Acquire(t.Context())
	require.NoError(t, err)
	l, err = c.Mutex("k").Acquire(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(outer.Context(t.Context()))
	b.Set(func(redistest.Command) (any, error) {
		cancel(assert.AnError)
		<-t.Context().Done()
		return nil, redistest.ErrCut
	})
	assert.ErrorIs(t, l.Release(ctx), assert.AnError)
}
