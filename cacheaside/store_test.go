package cacheaside_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cacheaside"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestACachedValueOfAnotherShapeIsLoadedAnew(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		require.NoError(t, w.server.Set("k", `{"name": 7}`))
		type user struct{ Name string }
		v, err := cacheaside.Fetch(t.Context(), w.cache(), "k", func(context.Context) (user, error) { return user{"Ada"}, nil })
		require.NoError(t, err)
		assert.Equal(t, user{"Ada"}, v)
		cached, err := w.server.Get("k")
		require.NoError(t, err)
		assert.JSONEq(t, `{"Name":"Ada"}`, cached)
	})
}

func TestACallerThatWaitsForAValueOfAnotherShapeLoadsItsOwn(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		cache := w.cache(cacheaside.WithMaxTries(5))
		var runs atomic.Int64
		var team sync.WaitGroup
		team.Go(func() {
			fetches(t, cache, "text", loading("text", 250*time.Millisecond, &runs))
		})
		synctest.Wait()
		for range 10 {
			team.Go(func() {
				v, err := cacheaside.Fetch(t.Context(), cache, "k", func(context.Context) (int, error) {
					runs.Add(1)
					time.Sleep(100 * time.Millisecond)
					return 7, nil
				})
				assert.NoError(t, err)
				assert.Equal(t, 7, v)
			})
		}
		team.Wait()
		assert.EqualValues(t, 2, runs.Load())
	})
}

// A failing Store returns the errors that it is given.
type failing struct {
	cacheaside.Store
	get, set error
}

func (s *failing) Get(ctx context.Context, key string) ([]byte, error) {
	if s.get != nil {
		return nil, s.get
	}
	return s.Store.Get(ctx, key)
}

func (s *failing) Set(ctx context.Context, key string, value []byte) error {
	if s.set != nil {
		return s.set
	}
	return s.Store.Set(ctx, key, value)
}

func TestACacheThatCannotBeReadDoesNotSendEverybodyToTheDatabase(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		broken := errors.New("out of order")
		cache := cacheaside.New(w.client(), &failing{w.store(), broken, nil})
		_, err := cacheaside.Fetch(t.Context(), cache, "k", unwanted)
		assert.ErrorIs(t, err, broken)
	})
}

func TestAValueThatCannotBeCachedIsReturnedAndLogged(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		var log bytes.Buffer
		cache := cacheaside.New(w.client(), &failing{w.store(), nil, errors.New("out of memory")},
			cacheaside.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		fetches(t, cache, "v", value("v"))
		assert.Contains(t, log.String(), "out of memory")
	})
}

// A plain Pool and its connections have no methods that take a context.
type plain struct{ pool *redis.Pool }

type plainConn struct{ redis.Conn }

func (c plainConn) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, d, command, args...)
}

func (c plainConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, d)
}

func (p plain) Get() redis.Conn { return plainConn{p.pool.Get()} }

func TestAnyPoolWillDoForARedisStore(t *testing.T) {
	s := redistest.Start(t)
	for name, pool := range map[string]redimutex.Pool{"with contexts": s.Pool(), "without": plain{s.Pool()}} {
		t.Run(name, func(t *testing.T) {
			store := cacheaside.NewRedisStore(pool, time.Hour)
			v, err := store.Get(t.Context(), "key "+name)
			require.NoError(t, err)
			assert.Nil(t, v)
			require.NoError(t, store.Set(t.Context(), "key "+name, []byte("v")))
			v, err = store.Get(t.Context(), "key "+name)
			require.NoError(t, err)
			assert.Equal(t, "v", string(v))
			ms, err := redis.Int64(s.Do("PTTL", "key "+name), nil)
			require.NoError(t, err)
			assert.Positive(t, ms, "a cached value has to expire")
		})
	}
}
