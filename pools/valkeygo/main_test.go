package valkeygo_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/pools/valkeygo"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// startRedis starts a server for an Example.
func startRedis() (addr string, stop func()) {
	m, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	return m.Addr(), m.Close
}

// open returns the pool of an option, and closes it at the end of the test.
func open(t testing.TB, option valkey.ClientOption) redimutex.Pool {
	t.Helper()
	pool, err := valkeygo.Pool(option)
	require.NoError(t, err)
	t.Cleanup(func() { pool.Close() })
	return pool
}
