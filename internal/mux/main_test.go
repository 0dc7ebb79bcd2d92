package mux_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/mux"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// nodeTimeout stands for the node timeout of a Client.
const nodeTimeout = time.Second

// share returns a Pool that shares n connections of source, until the end of the test.
func share(t testing.TB, source conn.Pool, n int) *mux.Pool {
	t.Helper()
	p := mux.New(conn.Of(source), n, nodeTimeout)
	t.Cleanup(func() { p.Close(nodeTimeout) })
	return p
}

// do sends a command over a connection of a Pool.
func do(ctx context.Context, c redis.Conn, name string, args ...any) (any, error) {
	return c.(shared).DoContext(ctx, name, args...)
}

// within is do with a timeout. The ctx does not end: the connection keeps the deadline by itself.
func within(c redis.Conn, d time.Duration, name string, args ...any) (any, error) {
	return do(until(d), c, name, args...)
}

// A shared is a connection of a Pool.
type shared interface {
	redis.Conn
	DoContext(ctx context.Context, name string, args ...any) (any, error)
}

// get returns a connection that is closed at the end of the test.
func get(t testing.TB, p *mux.Pool) shared {
	t.Helper()
	c, err := p.GetContext(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(shared)
}

// A wire is the network between the Pools of a test and an embedded server, whose clock may be virtual. It counts the
// connections, and can hold back replies.
type wire struct {
	server  *miniredis.Miniredis
	timeout time.Duration // for reading; 0: none

	mu    sync.Mutex
	dials int
	ends  []*end
	down  bool
	held  chan struct{} // not nil: replies wait until it is closed
}

func newWire(t testing.TB) *wire {
	w := &wire{server: miniredis.NewMiniRedis()}
	t.Cleanup(w.server.Close)
	return w
}

var errDown = errors.New("the wire is down")

// pool returns a pool of redigo over the wire.
func (w *wire) pool() *redis.Pool {
	return &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dials++
		if w.down {
			return nil, errDown
		}
		c, err := w.server.Dial()
		if err != nil {
			return nil, err
		}
		e := &end{Conn: c, wire: w, gone: make(chan struct{})}
		w.ends = append(w.ends, e)
		return redis.NewConn(e, w.timeout, 0), nil
	}}
}

// hold makes replies wait until the returned function is called.
func (w *wire) hold() (release func()) {
	held := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = held
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.held = nil
		close(held)
	})
}

// hangUp breaks all connections.
func (w *wire) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.ends {
		e.Close()
	}
	w.ends = nil
}

func (w *wire) cut(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}

// counted returns how many dials there were.
func (w *wire) counted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials
}

// An end is the client's end of the wire.
type end struct {
	net.Conn
	wire  *wire
	close sync.Once
	gone  chan struct{} // closed by Close
}

func (e *end) Close() error {
	e.close.Do(func() { close(e.gone) })
	return e.Conn.Close()
}

func (e *end) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	e.wire.mu.Lock()
	held := e.wire.held
	e.wire.mu.Unlock()
	if held == nil || err != nil {
		return n, err
	}
	select {
	case <-held:
		return n, nil
	case <-e.gone:
		return 0, net.ErrClosed
	}
}
