package conn_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/conn"
)

// A panicky network connection panics when an undo is written.
type panicky struct{ net.Conn }

func (c *panicky) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("UNDO")) {
		panic("no idea what that is")
	}
	return c.Conn.Write(p)
}

// panics dials a panicky connection.
func panics(t *testing.T, p *peer) redis.Conn {
	d := p.dialer(redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go p.serve(theirs)
		return &panicky{Conn: ours}, nil
	}))
	c, err := d.DialContext(t.Context())
	require.NoError(t, err)
	return c
}

// An undo may be written on a goroutine of this package, where a panic would end the process.
func TestAnUndoThatPanicsHarmsNobody(t *testing.T) {
	for _, punctual := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := panics(t, &peer{silentAt: "SET"})
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), conn.Undo, []any{"UNDO"}), time.Second)
			defer cancel()
			_, err := (&conn.Source{Punctual: punctual}).Do(ctx, c, "SET", "k", "v")
			assert.ErrorIs(t, conn.Plain(err), conn.ErrTimeout)
			conn.Close(c, false)
			synctest.Wait()
		})
	}
}

// A lentContext is used by another caller after an operation.
type lentContext struct {
	until
	back atomic.Bool
}

func (c *lentContext) Err() error {
	if c.back.Load() {
		panic("the operation is over")
	}
	return nil
}

func TestAnOperationThatPanicsGivesItsContextBack(t *testing.T) {
	for _, punctual := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := panics(t, &peer{})
			ctx := &lentContext{until: until{t.Context(), time.Now().Add(time.Second)}}
			_, err := (&conn.Source{Punctual: punctual}).Do(ctx, c, "UNDO")
			require.ErrorIs(t, err, conn.ErrPanicked)
			ctx.back.Store(true)
			time.Sleep(time.Minute)
			conn.Close(c, true)
		})
	}
}

// The pool may hand out the connection again: redigo has not seen the panic.
func TestAReceiveThatPanicsGivesItsContextBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(peer)
		panics := false
		d := p.dialer(redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go p.serve(theirs)
			return &deafOnce{ours, &panics}, nil
		}))
		c := dial(t, d)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, c.Send("PING"))
		panics = true
		require.Panics(t, func() { _, _ = redis.ReceiveContext(c, ctx) })
		cancel()
		synctest.Wait()
		_, err := c.Do("PING")
		require.NoError(t, err, "the ctx of an earlier caller has cut this one")
	})
}

// A deafOnce network connection panics at the next Read.
type deafOnce struct {
	net.Conn
	panics *bool
}

func (c *deafOnce) Read(p []byte) (int, error) {
	if *c.panics {
		*c.panics = false
		panic("not now")
	}
	return c.Conn.Read(p)
}

// A grumpy network connection panics at each Close.
type grumpy struct{ net.Conn }

func (c grumpy) Close() error {
	c.Conn.Close()
	panic("not now")
}

func TestANetworkConnectionWhoseClosePanicsKeepsNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		var theirs net.Conn
		d := p.dialer(redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) {
			var ours net.Conn
			ours, theirs = net.Pipe()
			go p.serve(theirs)
			return grumpy{ours}, nil
		}))
		c, err := d.DialContext(t.Context())
		require.NoError(t, err)
		theirs.Close()
		for range 2 {
			_, err = redis.DoContext(c, t.Context(), "PING")
			assert.Error(t, err)
		}
		conn.Close(c, true)
	})
}

func TestADialFunctionThatReturnsNothingGetsAnError(t *testing.T) {
	d := conn.NewDialer("tcp", "host:1", redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) {
		return nil, nil //nolint:nilnil // that is the point
	}))
	_, err := d.DialContext(t.Context())
	assert.ErrorContains(t, err, "the dial function returned no connection")
}
