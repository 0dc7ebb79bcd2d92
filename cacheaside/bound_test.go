package cacheaside_test

import (
	"context"
	"errors"
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

// A command has the same deadline as its ctx, and it is chance which passes first, so there are many callers. Some pools log
// in, or test a connection, without a deadline, as in redigo's documentation.
func TestFetchEndsWithTheCauseOfItsContextWhateverThePoolDoesOnAHungServer(t *testing.T) {
	redistest.Differs(t, "can't be paused")
	s := redistest.Start(t)
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
	for name, pool := range map[string]redimutex.Pool{
		"a connection is tested": documented(3), "a connection is dialled": documented(0),
		"with contexts": s.Pool(), "without contexts": plain{s.Pool()},
	} {
		t.Run(name, func(t *testing.T) {
			client := redimutex.NewClient([]redimutex.Pool{pool})
			defer client.Close()
			store := cacheaside.NewRedisStore(pool, time.Hour)
			cache := cacheaside.New(client, store)
			_, err := cacheaside.Fetch(t.Context(), cache, "warm "+name, func(context.Context) (string, error) { return "v", nil })
			require.NoError(t, err)
			cause := errors.New("the caller has no time left")
			s.Pause()
			defer s.Resume()
			before := runtime.NumGoroutine()
			var callers sync.WaitGroup
			for i := range 40 {
				callers.Go(func() {
					limit := 50*time.Millisecond + time.Duration(i)*5*time.Millisecond
					ctx, cancel := context.WithTimeoutCause(t.Context(), limit, cause)
					defer cancel()
					began := time.Now()
					_, err := cacheaside.Fetch(ctx, cache, fmt.Sprint("k", i), unwanted)
					assert.ErrorIs(t, err, cause)
					assert.ErrorIs(t, store.Set(ctx, "k", nil), cause)
					assert.Less(t, time.Since(began), limit+1800*time.Millisecond, "it waits for the server")
				})
			}
			callers.Wait()
			redistest.Wait(t, "few goroutines are left behind", func() bool { return runtime.NumGoroutine() < before+40 })
			if name == "with contexts" {
				assert.Error(t, store.Set(context.Background(), "k", nil), "a command has a deadline of its own")
			}
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
