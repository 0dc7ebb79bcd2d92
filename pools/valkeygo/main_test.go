package valkeygo_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/pools/valkeygo"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// open returns the pool of an option, and closes it at the end of the test.
func open(t testing.TB, option valkey.ClientOption) redimutex.Pool {
	t.Helper()
	pool, err := valkeygo.Pool(option)
	require.NoError(t, err)
	t.Cleanup(func() { pool.Close() })
	return pool
}
