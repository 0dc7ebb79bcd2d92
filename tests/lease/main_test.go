// Package lease_test holds what a Lease promises: that no other holder has a valid one, whatever order the
// servers execute extensions in, and that its end is known.
package lease_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	newClient = locktest.Client
	newMutex  = locktest.Mutex
)

// newPool returns a pool by NewPool, which is closed at the end of the test.
func newPool(t testing.TB, url string) redimutex.Pool {
	t.Helper()
	p, err := redimutex.NewPool(url)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}
