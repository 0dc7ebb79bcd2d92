package goredis_test

import (
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/pools/goredis"
)

func TestMain(m *testing.M) {
	logging.Disable()
	redistest.Main(m)
}

// open returns the pool of a client, and closes both at the end of the test. A dial that outlives its ctx may find the primary
// after that. The closed client then still subscribes at the Sentinel, so a second Close ends the subscription.
func open(t testing.TB, client redis.UniversalClient) goredis.PoolCloser {
	t.Helper()
	t.Cleanup(func() {
		client.Close()
		time.AfterFunc(10*time.Second, func() { client.Close() })
	})
	pool, err := goredis.Pool(client)
	require.NoError(t, err)
	t.Cleanup(func() { pool.Close() })
	return pool
}

// single is open for one server.
func single(t testing.TB, opt *redis.Options) *redigo.Pool {
	t.Helper()
	return open(t, redis.NewClient(opt)).(*redigo.Pool)
}
