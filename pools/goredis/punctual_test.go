package goredis_test

import (
	"context"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/pools/internal/pooltest"
)

// The dialer of go-redis does the TLS handshake without the context. The pool uses a dialer of its own instead.
func TestEveryPhaseEndsWithTheContext(t *testing.T) {
	t.Parallel()
	pooltest.EveryPhaseEndsWithTheContext(t, func(t *testing.T, front *redistest.Front) *redigo.Pool {
		return single(t, &redis.Options{
			Addr: front.Addr(), TLSConfig: front.TLS(), DB: 1, DialTimeout: time.Hour, ReadTimeout: time.Hour, WriteTimeout: time.Hour,
		})
	}, func(t *testing.T, front *redistest.Front) {
		// Without a context, such as in a cluster, the timeout for dialling bounds each of the two steps.
		pool := single(t, &redis.Options{
			Addr: front.Addr(), TLSConfig: front.TLS(), DB: 1, DialTimeout: 20 * time.Millisecond, ReadTimeout: 20 * time.Millisecond,
		})
		_, err := pooltest.Ask(pool, "PING")
		requireTimeout(t, err)
	})
}

func TestAProviderOfCredentialsThatHangsEndsWithTheContext(t *testing.T) {
	pool := single(t, &redis.Options{
		Addr: redistest.Start(t).Addr(),
		CredentialsProviderContext: func(ctx context.Context) (string, string, error) {
			<-ctx.Done()
			return "", "", ctx.Err()
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, pooltest.Ping(ctx, pool), context.DeadlineExceeded)
}
