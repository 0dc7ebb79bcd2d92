package cacheaside_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cacheaside"
	"github.com/redimutex/redimutex/internal/redistest"
)

// The pool is as redigo's documentation has it: its Dial logs in, and its TestOnBorrow asks, without a deadline.
func TestFetchEndsWithItsContextWhateverThePoolDoesOnAHungServer(t *testing.T) {
	s := redistest.Real(t)
	documented := func(maxIdle int) *redis.Pool {
		return &redis.Pool{
			MaxIdle: maxIdle,
			Dial: func() (redis.Conn, error) {
				c, err := redis.Dial("tcp", s.Addr())
				if err == nil {
					_, err = c.Do("ECHO", "as AUTH")
				}
				return c, err
			},
			TestOnBorrow: func(c redis.Conn, _ time.Time) error { _, err := c.Do("PING"); return err },
		}
	}
	for name, pool := range map[string]*redis.Pool{"a connection is tested": documented(3), "a connection is dialled": documented(0)} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { pool.Close() })
			client := redimutex.NewClient([]redimutex.Pool{pool})
			defer client.Close()
			cache := cacheaside.New(client, cacheaside.NewRedisStore(pool, time.Hour))
			_, err := cacheaside.Fetch(t.Context(), cache, "warm "+name, func(context.Context) (string, error) { return "v", nil })
			require.NoError(t, err)
			s.Pause()
			defer s.Resume()
			before := runtime.NumGoroutine()
			var callers sync.WaitGroup
			for i := range 60 {
				callers.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					began := time.Now()
					_, err := cacheaside.Fetch(ctx, cache, fmt.Sprint("k", i), unwanted)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.Less(t, time.Since(began), 1900*time.Millisecond, "it waits for the server")
				})
			}
			callers.Wait()
			redistest.Wait(t, "few goroutines are left behind", func() bool { return runtime.NumGoroutine() < before+40 })
		})
	}
}

func TestFetchShowsNoPasswordOfAPool(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse"
	for _, dial := range []func() (redis.Conn, error){
		func() (redis.Conn, error) { return redis.DialURL("redis://:" + secret + "%zz@localhost:1") },
		func() (redis.Conn, error) {
			return nil, fmt.Errorf("no way to %v", "redis://app:"+secret+"@localhost:1")
		},
	} {
		pool := &redis.Pool{Dial: dial}
		client := redimutex.NewClient([]redimutex.Pool{pool})
		cache := cacheaside.New(client, cacheaside.NewRedisStore(pool, time.Hour))
		_, err := cacheaside.Fetch(t.Context(), cache, "k", unwanted)
		require.Error(t, err)
		assert.NotContains(t, fmt.Sprintf("%v %+v", err, err), secret)
		require.NoError(t, client.Close())
	}
}
