package server_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestTheRoundTripIsKnown(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		assert.Zero(t, s.RTT())
		b.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
			time.Sleep(80 * time.Millisecond)
			return run()
		})
		for range 3 {
			q := request("k")
			done(t, acquire(s, q))
			done(t, release(s, q))
		}
		assert.Equal(t, 80*time.Millisecond, s.RTT())
	})
}
