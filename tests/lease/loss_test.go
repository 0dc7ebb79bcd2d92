package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// kinds are the ways in which a hold ends at the servers.
var kinds = map[string][]redimutex.Option{
	"plain":    nil,
	"queue":    {redimutex.WithQueue()},
	"fencing":  {redimutex.WithFencing()},
	"min hold": {redimutex.WithMinHold(time.Minute)},
}

// over calls f for a single server and for three, and every kind of hold.
func over(t *testing.T, f func(t *testing.T, c *redimutex.Client, servers []*redistest.Server)) {
	t.Helper()
	for count, topology := range map[int]string{1: "one server", 3: "three servers"} {
		for kind, opts := range kinds {
			if kind == "queue" && count > 1 {
				continue // a queue is kept by one server
			}
			t.Run(topology+", "+kind, func(t *testing.T) {
				t.Parallel()
				var servers []*redistest.Server
				var pools []redimutex.Pool
				for range count {
					s := redistest.Start(t)
					servers, pools = append(servers, s), append(pools, s.Pool())
				}
				opts := append(opts[:len(opts):len(opts)], redimutex.WithNodeTimeout(5*time.Second)) // more than a slow machine needs
				f(t, newClient(t, pools, opts...), servers)
			})
		}
	}
}

// replace puts a key of another type where the lock was.
func replace(t *testing.T, servers []*redistest.Server) {
	for _, s := range servers {
		// A majority had it when Lock returned, and the last server may have it only now.
		redistest.Wait(t, "every server has the lock", func() bool { return s.Get("k") != "" })
		s.Do("DEL", "k")
		s.Do("HSET", "k", "field", "value")
	}
}

func TestUnlockTellsThatTheKeyWasReplacedByOneOfAnotherType(t *testing.T) {
	t.Parallel()
	over(t, func(t *testing.T, c *redimutex.Client, servers []*redistest.Server) {
		m := c.Mutex("k")
		require.NoError(t, m.LockContext(t.Context(), time.Minute))
		replace(t, servers)
		err := m.UnlockContext(t.Context())
		assert.ErrorIs(t, err, redimutex.ErrLost)
		var lost *redimutex.LostError
		if assert.ErrorAs(t, err, &lost) {
			assert.Equal(t, redimutex.Taken, lost.Reason)
		}
		for _, s := range servers {
			assert.EqualValues(t, 1, s.Do("HLEN", "k"), "what is not ours is left alone")
		}
	})
}
