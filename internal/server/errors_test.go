package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/punctual"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestAServerThatCantRunTheScriptsIsRefusedInOneSentence(t *testing.T) {
	t.Parallel()
	const wrapped = "ERR Error running script (call to f_3b2c1d): @user_script:36: @user_script: 36: "
	for _, words := range []string{
		"ERR unknown command 'EVALSHA', with args beginning with: 'c34f', '1', 'k', ",
		"ERR unknown command `EVALSHA`, with args beginning with: ",
		"ERR unknown command 'EVALSHA'",
		wrapped + "Write commands not allowed after non deterministic commands. Call redis.replicate_commands() at the start of your script",
		wrapped + "Unknown Redis command called from Lua script",
	} {
		virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			b.Set(func(run func() (any, error), command string, _ []any) (any, error) {
				if strings.HasPrefix(command, "EVAL") {
					return nil, redis.Error(words)
				}
				return run()
			})
			q := request("k")
			q.Plain = true
			for range 2 {
				got := acquire(s, q)
				failed(t, got)
				assert.True(t, server.Permanent(got.Err))
				assert.Contains(t, got.Err.Error(), "Redis 5.0, Valkey 7.2")
				assert.NotContains(t, got.Err.Error(), "\n")
				assert.NotContains(t, got.Err.Error(), "ERR")
				assert.False(t, m.Exists("k"), "a lock that could not be renewed")
			}
		})
	}
}

func TestARealServerWithoutLuaIsRefused(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t, "--rename-command", "EVALSHA", "", "--rename-command", "EVAL", "")
	s := open(t, r.Pool())
	q := request("k")
	q.Plain = true
	for range 2 {
		got := acquire(s, q)
		failed(t, got)
		assert.True(t, server.Permanent(got.Err), "%v", got.Err)
		assert.ErrorContains(t, got.Err, "no Lua scripting")
	}
	assert.Empty(t, r.Keys())
}

func TestTheFirstTryOfAServerIsAScript(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		var c counter
		b.Set(c.count)
		q := request("k")
		q.Plain = true
		for range 2 {
			done(t, acquire(s, q))
			done(t, release(s, q))
		}
		assert.Equal(t, "TIME EVALSHA EVAL EVALSHA EVAL SET EVALSHA", c.take())
	})
}

func TestNoErrorTellsAPassword(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	_, badURL := redis.DialURL("redis://:" + secret + "%zz@localhost")
	require.ErrorContains(t, badURL, secret, "what this is about")
	for _, dial := range []error{
		redis.Error("ERR unknown command 'AUTH', with args beginning with: '" + secret + "' "),
		fmt.Errorf("dial: %w", redis.Error("ERR unknown command `HELLO`, with args beginning with: `3` `AUTH` `u` `"+secret+"` ")),
		badURL,
		fmt.Errorf("dial %s: %w", "redis://:"+secret+"%zz@localhost", badURL),
		&url.Error{Op: "Get", URL: "https://u:" + secret + "@vault", Err: context.DeadlineExceeded},
	} {
		pool := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, dial }}
		s := open(t, pool)
		for name, verb := range verbs {
			err := verb(context.Background(), s, request("k"))
			require.Error(t, err)
			for e := err; e != nil; e = errors.Unwrap(e) {
				assert.NotContains(t, e.Error(), secret, name)
				assert.NotContains(t, fmt.Sprintf("%+v", e), secret, name)
			}
			var said redis.Error
			assert.Equal(t, errors.As(dial, &said), errors.As(err, &said), "the class of the error is lost")
			assert.NotContains(t, string(said), secret)
			assert.Equal(t, errors.Is(dial, context.DeadlineExceeded), server.TimedOut(err))
		}
		_, err := s.Source().Dial(context.Background())
		require.Error(t, err)
		assert.NotContains(t, err.Error(), secret)
	}
}

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

func TestAConnectionWithoutTimeoutsIsNotUsedAgainEither(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t)
	pool := r.Pool()
	s := open(t, wrapper{pool, func(c redis.Conn) redis.Conn { return struct{ redis.Conn }{c} }})
	r.Do("REPLICAOF", "127.0.0.1", "1")
	failed(t, acquire(s, request("k")))
	r.Do("REPLICAOF", "NO", "ONE")
	c := pool.Get()
	defer c.Close()
	_, err := c.Do("PING")
	assert.Error(t, err, "the connection is as good as before")
}

// The primary was demoted between the two: what the script said counts.
func TestTheScriptsOwnErrorCountsBeforeThatOfWait(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		b.Set(func(run func() (any, error), command string, _ []any) (any, error) {
			if command == "WAIT" {
				return nil, redis.Error("ERR WAIT cannot be used with replica instances.")
			}
			return nil, redis.Error("READONLY You can't write against a read only replica.")
		})
		q.Replicas = replicas(time.Second)
		got := one(s, q)
		failed(t, got)
		assert.ErrorContains(t, got.Err, "READONLY")
	})
}
