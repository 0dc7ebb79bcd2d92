// Package keys_test holds what is promised about the keys on the servers: a lock has the key that its user
// gave it, whatever else is there, and the keys beside it are nobody's lock.
package keys_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// newClient returns a Client that is closed at the end of the test.
func newClient(t testing.TB, pools []redimutex.Pool, opts ...redimutex.Option) *redimutex.Client {
	t.Helper()
	c := redimutex.NewClient(pools, opts...)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
