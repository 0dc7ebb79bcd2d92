package rueidisgo_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/pools/rueidisgo"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// open returns the pool of an option, and closes it at the end of the test.
func open(t testing.TB, option rueidis.ClientOption) redimutex.Pool {
	t.Helper()
	pool, err := rueidisgo.Pool(option)
	require.NoError(t, err)
	t.Cleanup(func() { pool.Close() })
	return pool
}
