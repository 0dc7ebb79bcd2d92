// Package lease_test holds what a Lease promises: that no other holder has a valid one, whatever order the servers execute
// extensions in, what one process keeps for its next hold, and which processes are killed or stopped; that its end is known;
// and that fences rise.
package lease_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// TestMain runs the tests, or one worker process of theirs.
func TestMain(m *testing.M) {
	redistest.Main(m, redistest.Role{Variable: workerVariable, Run: writeFenced}, redistest.Role{Variable: roleVariable, Run: lockInAProcess})
}

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
