package server_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/punctual"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// redigo keeps a connection that said so, and hands it out again and again.
func TestAConnectionToADemotedServerIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t)
	d := punctual.NewDialer("tcp", r.Addr())
	ours := &redis.Pool{MaxIdle: 10, DialContext: d.DialContext}
	t.Cleanup(func() { ours.Close() })
	plain := r.Pool()
	under := r.Pool()
	for name, pool := range map[string]struct {
		server.Pool
		under *redis.Pool
	}{"NewPool": {ours, ours}, "plain": {plain, plain}, "wrapped": {wrapper{under, func(c redis.Conn) redis.Conn { return c }}, under}} {
		t.Run(name, func(t *testing.T) {
			r.Do("REPLICAOF", "NO", "ONE")
			s := open(t, pool.Pool)
			q := request("k")
			done(t, acquire(s, q))
			var demotions atomic.Int32
			s.OnDemotion(func() { demotions.Add(1) })
			r.Do("REPLICAOF", "127.0.0.1", "1")
			for name, f := range map[string]func() server.Reply{
				"try":     func() server.Reply { return acquire(s, request("other")) },
				"plain":   func() server.Reply { o := request("other"); o.Plain = true; return acquire(s, o) },
				"release": func() server.Reply { return release(s, q) },
				"extend":  func() server.Reply { o := *q; o.TTL += time.Second; return one(s, &o) }, // else there may be nothing to write
				"replicas": func() server.Reply {
					o := *q
					o.TTL += time.Second
					o.Replicas = replicas(10 * time.Millisecond)
					return one(s, &o)
				},
			} {
				before := demotions.Load()
				got := f()
				failed(t, got)
				assert.ErrorContains(t, got.Err, "READONLY", name)
				assert.False(t, server.Permanent(got.Err), name)
				assert.Greater(t, demotions.Load(), before, name)
			}
			s.Close(10 * time.Second)
			assert.Zero(t, pool.under.IdleCount(), "a connection to a replica is kept")
			r.Do("REPLICAOF", "NO", "ONE")
			r.Do("DEL", "k")
		})
	}
}
