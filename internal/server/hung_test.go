package server_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// hangs has the first script come back when its test ends, as over a connection without timeouts; others are what next says.
func hangs(t *testing.T, b *redistest.Between, after time.Duration, next func() error) {
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	var first atomic.Bool
	b.Set(func(run func() (any, error), command string, _ []any) (any, error) {
		if strings.HasPrefix(command, "EVAL") && first.CompareAndSwap(false, true) {
			time.Sleep(after)
			reply, err := run()
			<-never
			return reply, err
		}
		if err := next(); err != nil {
			return nil, err
		}
		return run()
	})
}

func loading() error { return redis.Error("LOADING for a moment") }

func TestAReleaseIsRepeatedWhileTheTryHangs(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("warm")))
		var well atomic.Bool
		hangs(t, b, 0, func() error {
			if well.Load() {
				return nil
			}
			return loading()
		})
		q := request("k")
		c := q.claim(s)
		failed(t, c.Try(t.Context(), server.Try{}))
		require.True(t, m.Exists("k"))
		c.Entered() // else the next try would not wait for the release
		failed(t, c.Release(t.Context(), time.Now(), time.Time{}))
		well.Store(true)
		time.Sleep(q.Timeout)
		assert.False(t, m.Exists("k"))
		done(t, acquire(s, request("k")))
	})
}

func TestAReleaseIsRepeatedForATryThatWasExecutedBehindItAndHangs(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("warm")))
		q := request("k")
		hangs(t, b, q.Timeout*3/4, func() error { return nil })
		c := q.claim(s)
		ctx, cancel := context.WithCancel(t.Context()) // with a timeout the server would know its end
		time.AfterFunc(q.Timeout/10, cancel)
		failed(t, c.Try(ctx, server.Try{}))
		c.Drop()
		time.Sleep(q.Timeout * 4 / 5)
		require.True(t, m.Exists("k"))
		time.Sleep(3 * q.Timeout)
		assert.False(t, m.Exists("k"))
	})
}

// The release that goes aside could take back the mark that the next claim shows.
func TestAReleaseGoesAsideNoMoreOnceTheServerHasAnswered(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("warm")))
		require.NoError(t, m.Set("k", "another"))
		q := request("k")
		q.Kind, q.Want, q.Rest.Channel = server.Writer, "w", "redimutex:me"
		try := server.Try{Shows: 30 * time.Second}
		c := q.claim(s)
		swallow(b, "EVALSHA")
		failed(t, c.Try(t.Context(), try))
		require.Equal(t, server.Held, c.Try(t.Context(), try).Verdict)
		var first atomic.Bool
		b.Set(func(run func() (any, error), command string, _ []any) (any, error) {
			if strings.HasPrefix(command, "EVAL") && first.CompareAndSwap(false, true) {
				time.Sleep(time.Second)
			}
			return run()
		})
		c.Drop()
		time.Sleep(time.Millisecond)
		next := *q
		next.Token = uuid.NewString()
		require.Equal(t, server.Held, next.claim(s).Try(t.Context(), try).Verdict)
		time.Sleep(2 * time.Second)
		_, writers, _, _ := server.PhaseKeys("k")
		marks, err := m.ZMembers(writers)
		require.NoError(t, err)
		assert.Equal(t, []string{"redimutex:me"}, marks)
	})
}
