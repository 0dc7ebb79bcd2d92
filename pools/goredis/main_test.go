package goredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/pools/goredis"
)

func TestMain(m *testing.M) {
	logging.Disable()
	redistest.Main(m)
}

// startRedis starts a server for an Example.
func startRedis() (addr string, stop func()) {
	m, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	return m.Addr(), m.Close
}

const secret = "s3cr3t-Pa55w0rd"

// open returns the pool of a client, and closes both at the end of the test.
func open(t testing.TB, client redis.UniversalClient) goredis.PoolCloser {
	t.Helper()
	t.Cleanup(func() { client.Close() })
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

// lock takes a lock over pool, with what is wanted, and gives it back.
func lock(t testing.TB, pool redimutex.Pool, key string, opts ...redimutex.Option) {
	t.Helper()
	opts = append([]redimutex.Option{redimutex.WithNodeTimeout(4 * time.Second)}, opts...) // the machine may be late
	client := redimutex.NewClient([]redimutex.Pool{pool}, opts...)
	defer func() { require.NoError(t, client.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m := client.Mutex(key)
	require.NoError(t, m.LockContext(ctx, 0))
	require.NoError(t, m.UnlockContext(ctx))
}

// ask has the pool connect and run a command.
func ask(p redimutex.Pool, command string, args ...any) (string, error) {
	c := p.Get()
	defer c.Close()
	return redigo.String(c.Do(command, args...))
}
