package kinds_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// eachHold gives f a hold of each kind, of a key with a TTL of a minute, on a server of its own.
func eachHold(t *testing.T, f func(t *testing.T, s *redistest.Server, l *redimutex.Lease)) {
	for name, way := range map[string]func(c *redimutex.Client) func(context.Context) (*redimutex.Lease, error){
		"Mutex": func(c *redimutex.Client) func(context.Context) (*redimutex.Lease, error) { return c.Mutex("k").Acquire },
		"writer": func(c *redimutex.Client) func(context.Context) (*redimutex.Lease, error) {
			return c.RWMutex("k").Acquire
		},
		"reader": func(c *redimutex.Client) func(context.Context) (*redimutex.Lease, error) {
			return c.RWMutex("k").RAcquire
		},
		"permit": func(c *redimutex.Client) func(context.Context) (*redimutex.Lease, error) {
			return c.Semaphore("k", 2).Acquire
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t)
			c := locktest.Client(t, []redimutex.Pool{s.Pool()}, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10*time.Second))
			l, err := way(c)(t.Context())
			require.NoError(t, err)
			f(t, s, l)
		})
	}
}

func TestAnExtensionThatAReplicaRefusesIsNone(t *testing.T) {
	t.Parallel()
	eachHold(t, func(t *testing.T, s *redistest.Server, l *redimutex.Lease) {
		until := l.Until()
		s.Do("REPLICAOF", "127.0.0.1", "1") // where no primary is, so that the data stays
		err := l.Extend(t.Context(), time.Hour)
		assert.ErrorIs(t, err, redimutex.ErrUnavailable)
		assert.ErrorContains(t, err, "READONLY")
		assert.Equal(t, until, l.Until())
		s.Do("REPLICAOF", "NO", "ONE")
		release(t, l)
	})
}
