package failure_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// What we know of a server's clock is as exact as its first reply was fast. So the server may refuse a try in the last
// moments of ctx; but the lock was held by another caller all the time.
func TestATryThatTheServerTakesToBeTooLateSaysNothingOfTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	s.Do("SET", "k", "foreign")
	pool := redistest.NewBetween(s.Pool())
	m := newMutex(t, pool, "k", redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(20*time.Second), redimutex.WithPollInterval(900*time.Millisecond))
	lateTries := 0
	pool.Set(func(run func() (any, error), name string, _ []any) (any, error) {
		reply, err := run()
		if now, ok := reply.(int64); ok && now < 0 {
			if lateTries++; lateTries == 1 {
				time.Sleep(200 * time.Millisecond) // so that the repetition is late by half of that
			}
		}
		if name == "TIME" {
			time.Sleep(time.Second)
		}
		return reply, err
	})
	require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrLocked)
	ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
	defer cancel()
	err := m.LockContext(ctx, 0)
	assert.ErrorIs(t, err, redimutex.ErrLocked)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
	t.Logf("%d tries were too late", lateTries)
}
