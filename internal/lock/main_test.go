package lock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/punctual"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"

	"github.com/gomodule/redigo/redis"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// terms are those of most tests.
var terms = Terms{TTL: 10 * time.Second, NodeTimeout: 500 * time.Millisecond, Renew: true}

// quiet is an Observer that is not interested.
type quiet struct{}

func (quiet) Traced() bool                                        { return false }
func (quiet) Waiting(context.Context)                             {}
func (quiet) Tried(context.Context, int, time.Duration, *Failure) {}
func (quiet) Unavailable(*quorum.Failure)                         {}
func (quiet) Renewed(*quorum.Failure)                             {}
func (quiet) Lost(keepalive.Reason)                               {}
func (quiet) LostIdle(keepalive.Reason)                           {}

func newEngine(t testing.TB, servers ...*redistest.Server) *Engine {
	t.Helper()
	var pools []server.Pool
	for _, s := range servers {
		p := &redis.Pool{MaxIdle: 10, DialContext: punctual.NewDialer("tcp", s.Addr()).DialContext}
		t.Cleanup(func() { p.Close() })
		pools = append(pools, p)
	}
	e := New(pools)
	t.Cleanup(func() { e.Close(time.Second) })
	return e
}

// call is a call that wants the key "k" on these terms.
func call(t Terms) *Call {
	return &Call{Key: "k", Terms: &t, Pause: func(int) time.Duration { return 10 * time.Millisecond }}
}

// lock gets the lock, or fails the test.
func lock(t testing.TB, e *Engine, c *Call) (*Hold, Result) {
	t.Helper()
	h := &Hold{Observer: quiet{}}
	r := e.Lock(t.Context(), c, h)
	require.Nil(t, r.Failure)
	return h, r
}

func forgotten(t testing.TB, e *Engine) {
	t.Helper()
	redistest.Wait(t, "every key is forgotten", func() bool { return e.Keys() == 0 && e.Held() == 0 })
}
