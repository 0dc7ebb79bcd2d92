// Package reuse_test holds what the holds of one process that follow each other in one lease promise.
package reuse_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// newClient returns a Client that is closed at the end of the test.
func newClient(t testing.TB, pool redimutex.Pool, opts ...redimutex.Option) *redimutex.Client {
	t.Helper()
	c := redimutex.NewClient([]redimutex.Pool{pool}, opts...)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}
