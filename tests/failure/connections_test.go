package failure_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A firewall knows the connections that pass it, and can forget them: then nothing passes, and neither end is told.
type firewall struct {
	mu    sync.Mutex
	paths []*path
}

type path struct {
	net.Conn
	forgotten atomic.Bool
}

func (p *path) Write(b []byte) (int, error) {
	if p.forgotten.Load() {
		return len(b), nil
	}
	return p.Conn.Write(b)
}

func (f *firewall) dial(network, addr string) (net.Conn, error) {
	c, err := net.Dial(network, addr)
	if err != nil {
		return nil, err
	}
	p := &path{Conn: c}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths = append(f.paths, p)
	return p, nil
}

// passed returns how many connections there were.
func (f *firewall) passed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.paths)
}

func (f *firewall) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.paths {
		p.forgotten.Store(true)
	}
}

// restart restarts s, and returns when it takes commands again.
func restart(t *testing.T, s *redistest.Server) {
	t.Helper()
	s.Restart()
	redistest.Wait(t, "it has loaded its data", func() bool {
		c, err := redis.Dial("tcp", s.Addr())
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = c.Do("EXISTS", "k")
		return err == nil
	})
}

// idle has a pool keep n connections.
func idle(t *testing.T, pool *redis.Pool, n int) {
	t.Helper()
	conns := make([]redis.Conn, n)
	for i := range conns {
		conns[i] = pool.Get()
		_, err := conns[i].Do("PING")
		require.NoError(t, err)
	}
	for _, c := range conns {
		c.Close()
	}
	require.GreaterOrEqual(t, pool.IdleCount(), n)
}

// pools are ways to make one for a server.
func pools(t *testing.T, s *redistest.Server, opts ...redis.DialOption) map[string]*redis.Pool {
	ours, err := redimutex.NewPool(s.URL(), opts...)
	require.NoError(t, err)
	plain := &redis.Pool{MaxIdle: 16, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", s.Addr(), opts...) }}
	t.Cleanup(func() {
		ours.Close()
		plain.Close()
	})
	return map[string]*redis.Pool{"NewPool": ours, "plain": plain}
}
