package failure_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A caller checks whether its own deadline has passed. A silent server must not look like that.
func TestASilentServerIsNoDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	full := s.Pool()
	full.MaxActive, full.Wait = 1, true
	own, err := redimutex.NewPool("redis://" + s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { own.Close() })
	timeout := redimutex.WithNodeTimeout(300 * time.Millisecond)
	type call struct {
		name string
		verb func(ctx context.Context) error
	}
	var calls []call
	for name, pool := range map[string]redimutex.Pool{
		"that of NewPool":  own,
		"a pool of redigo": s.Pool(),
		"one connection":   full,
		"another make":     hiding{s.Pool()},
	} {
		free, held := newClient(t, pool, timeout), newClient(t, pool, timeout)
		l, err := held.Mutex(name).Acquire(t.Context())
		require.NoError(t, err)
		calls = append(calls,
			call{name + ", a try", free.Mutex("free").TryLockContext},
			call{name + ", an extension", func(ctx context.Context) error { return l.Extend(ctx, time.Minute) }},
			call{name + ", a release", l.Release})
	}
	shared := newClient(t, s.Pool(), timeout, redimutex.WithMultiplexing(1))
	calls = append(calls, call{"multiplexed, a try", shared.Mutex("free").TryLockContext})
	c := full.Get()
	defer c.Close()
	_, err = redis.String(c.Do("PING"))
	require.NoError(t, err)
	s.Pause()
	defer s.Resume()
	for _, c := range calls {
		name, err := c.name, c.verb(t.Context())
		require.ErrorIs(t, err, redimutex.ErrUnavailable, name)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, name)
		var node *redimutex.NodeError
		require.ErrorAs(t, err, &node, name)
		var timed interface{ Timeout() bool }
		assert.ErrorAs(t, err, &timed, name)
		assert.ErrorContains(t, err, " before the node timeout", name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, shared.Mutex("free").LockContext(ctx, 0), context.DeadlineExceeded, "that is the caller's")
}
