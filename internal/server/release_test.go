package server_test

import (
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// The reply is lost on its way. To call the lock lost, because it is gone the second time, would be false alarm.
func TestAReleaseWhoseReplyWasLostIsNoLoss(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		var executed atomic.Int64
		b.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
			reply, err := run()
			if err == nil && executed.Add(1) == 1 { // not NOSCRIPT
				return nil, redistest.ErrCut
			}
			return reply, err
		})
		done(t, release(s, q))
		assert.False(t, m.Exists("k"))
		assert.Greater(t, executed.Load(), int64(1), "it was not repeated, so nothing was shown")
	})
}
