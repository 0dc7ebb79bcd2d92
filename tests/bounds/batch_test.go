package bounds_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A full connection, once armed, takes no more of a long batch, as if its peer read nothing and its buffers were full.
type full struct {
	net.Conn
	never net.Conn // takes nothing
	armed *atomic.Bool
	met   func()
}

func (f full) Write(b []byte) (int, error) {
	if len(b) >= 4096 && f.armed.Load() {
		f.met()
		return f.never.Write(b)
	}
	return f.Conn.Write(b)
}

func (f full) SetDeadline(t time.Time) error {
	f.never.SetDeadline(t) //nolint:errcheck // it can't fail
	return f.Conn.SetDeadline(t)
}

func (f full) SetWriteDeadline(t time.Time) error {
	f.never.SetWriteDeadline(t) //nolint:errcheck // it can't fail
	return f.Conn.SetWriteDeadline(t)
}

func (f full) Close() error {
	f.never.Close()
	return f.Conn.Close()
}

// The pool has no timeouts of its own, so only the library can end the write.
func TestABatchThatCanNotBeWrittenIsBound(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const node = 300 * time.Millisecond
	var armed atomic.Bool
	met := make(chan struct{})
	meet := sync.OnceFunc(func() { close(met) }) // several connections may be full
	pool := &redis.Pool{MaxIdle: 9, DialContext: redimutex.Dialer("tcp", s.Addr(),
		redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			never, _ := net.Pipe()
			return full{c, never, &armed, meet}, err
		}))}
	defer pool.Close()
	client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(6*time.Second), redimutex.WithNodeTimeout(node))
	for i := range 40 {
		key := fmt.Sprint(i, strings.Repeat(".", 2000)) // so long that a few keys fill the buffer
		require.NoError(t, client.Mutex(key).LockContext(t.Context(), time.Minute))
	}
	armed.Store(true)
	<-met
	lateness := redistest.MeasureLateness()
	began := time.Now()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		client.Close()
	}()
	select {
	case <-closed:
		assert.LessOrEqual(t, time.Since(began), 2*node+tolerance+lateness.Stop())
	case <-time.After(20 * time.Second):
		assert.Fail(t, "Close waits for as long as nobody reads")
	}
}
