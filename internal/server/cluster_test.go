package server_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestAMovedKeyIsFollowed(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	var moves atomic.Bool
	s := open(t, wrapper{r.Pool(), func(conn redis.Conn) redis.Conn {
		return &movingConn{boundConn: &boundConn{conn, new(bindings), -1}, moves: &moves}
	}})
	q, plain := request("k"), request("k")
	q.Fence, plain.Plain = server.NextFence, true
	for name, op := range []func() server.Reply{
		func() server.Reply { return acquire(s, q) },
		func() server.Reply { return release(s, q) },
		func() server.Reply { return acquire(s, plain) },
		func() server.Reply { return one(s, plain) },
		func() server.Reply { return raise(s, plain, 7) },
		func() server.Reply {
			_, err := get(s, "k", 10*time.Second)
			require.NoError(t, err)
			return server.Reply{Verdict: server.Done}
		},
		func() server.Reply { return release(s, plain) },
	} {
		moves.Store(true)
		done(t, op())
		assert.False(t, moves.Load(), "operation %d met no node that says MOVED", name)
	}
}

// A cluster may be in such a state that a client that follows MOVED gets no connection.
func TestAMovedKeyWithoutAConnectionIsAnError(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	var gets, moves atomic.Int64
	s := open(t, wrapper{r.Pool(), func(conn redis.Conn) redis.Conn {
		return &lostConn{boundConn: &boundConn{conn, new(bindings), -1}, nth: gets.Add(1), moves: &moves}
	}})
	for _, cmds := range [][][]any{{{"GET", "k"}}, {{"GET", "k"}, {"PTTL", "k"}}} {
		gets.Store(0)
		var replies []any
		err := s.Run(t.Context(), 10*time.Second, "k", func(ses *server.Session) (err error) {
			replies, err = ses.Pipeline(cmds)
			return err
		})
		if err == nil {
			assert.Implements(t, (*error)(nil), replies[0])
		}
		assert.EqualValues(t, 2, gets.Load(), "none is asked for to be given back")
	}
	gets.Store(0)
	for range 3 { // of one key, in one round trip
		releaseLater(s, request("k"))
	}
	redistest.Wait(t, "undos that were told MOVED", func() bool { return moves.Load() > 10 })
}

// A lostConn says MOVED, and every second one can't be bound to a node.
type lostConn struct {
	*boundConn
	nth   int64
	moves *atomic.Int64
}

func (c *lostConn) Bind(keys ...string) error {
	if c.nth%2 == 0 {
		return errors.New("connection pool exhausted")
	}
	return c.boundConn.Bind(keys...)
}

func (c *lostConn) DoWithTimeout(time.Duration, string, ...any) (any, error) {
	c.moves.Add(1)
	return nil, redis.Error("MOVED 3999 127.0.0.1:6381")
}

func (c *lostConn) Send(string, ...any) error { return nil }
func (c *lostConn) Flush() error              { return nil }

func (c *lostConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	return c.DoWithTimeout(d, "")
}

// A movingConn may be one to a node that served the key before.
type movingConn struct {
	*boundConn
	moves *atomic.Bool // the next command is at the wrong node
	swap  []bool
}

func (c *movingConn) answer(name string) error {
	if name != "" && name != "TIME" && name != "CLUSTER" && c.moves.Swap(false) {
		return redis.Error("MOVED 3999 127.0.0.1:6381")
	}
	return nil
}

func (c *movingConn) DoWithTimeout(d time.Duration, name string, args ...any) (any, error) {
	if err := c.answer(name); err != nil {
		return nil, err
	}
	return c.boundConn.DoWithTimeout(d, name, args...)
}

func (c *movingConn) Send(name string, args ...any) error {
	c.swap = append(c.swap, c.answer(name) != nil)
	if c.swap[len(c.swap)-1] {
		return nil
	}
	return c.boundConn.Send(name, args...)
}

func (c *movingConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	moved := c.swap[0]
	c.swap = c.swap[1:]
	if moved {
		return nil, redis.Error("MOVED 3999 127.0.0.1:6381")
	}
	return c.boundConn.ReceiveWithTimeout(d)
}
