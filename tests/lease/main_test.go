// Package lease_test tests what a Lease promises: no other holder has a valid lease, in whatever order the servers execute
// extensions, whatever a process keeps for its next hold, and whichever processes are killed or stopped. The end of a lease is
// known, and fences rise.
package lease_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// TestMain runs the tests, or a worker process that they have started.
func TestMain(m *testing.M) {
	redistest.Main(m, redistest.Role{Variable: workerVariable, Run: writeFenced}, redistest.Role{Variable: roleVariable, Run: lockInAProcess})
}

var (
	newClient     = locktest.Client
	newClientOver = locktest.ClientOver
	newMutex      = locktest.Mutex
)

// newPool returns a pool made by NewPool. It is closed at the end of the test.
func newPool(t testing.TB, url string) redimutex.Pool {
	t.Helper()
	p, err := redimutex.NewPool(url)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}
