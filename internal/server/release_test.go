package server_test

import (
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/punctual"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// All connections that the pool keeps have been closed by the server, or something on the way to it.
func TestAReleaseOverAStaleConnectionIsRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(*redis.Pool) server.Pool{
		"redigo's dial": func(p *redis.Pool) server.Pool {
			dial := p.DialContext
			p.DialContext, p.Dial = nil, func() (redis.Conn, error) { return dial(t.Context()) }
			return p
		},
		"our dialler": func(p *redis.Pool) server.Pool { return p },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := redistest.Real(t)
			pool := &redis.Pool{MaxIdle: 10, DialContext: punctual.NewDialer("tcp", r.Addr()).DialContext}
			t.Cleanup(func() { pool.Close() })
			var conns []redis.Conn
			for range pool.MaxIdle {
				c := pool.Get()
				_, err := c.Do("PING")
				require.NoError(t, err)
				conns = append(conns, c)
			}
			for _, c := range conns {
				c.Close()
			}
			s := open(t, of(pool))
			q, kept := request("k"), request("kept")
			kept.Keep = kept.TTL / 2
			done(t, acquire(s, q))
			done(t, acquire(s, kept))
			for _, q := range []*hold{q, kept} {
				r.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				done(t, release(s, q))
			}
			assert.False(t, exists(t, r, "k"))
			assert.Less(t, pttl(t, r, "kept"), kept.TTL*3/4)
		})
	}
}

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
