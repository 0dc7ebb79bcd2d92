package failure_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A plain SET has no deadline. If a hung server executes it late, it is taken back by an undo that was written behind the SET
// on the same connection. This works also if no other connection gets through, and if the pool keeps no deadlines. A machine
// that is a tenth of a second late may close the connection first.
func TestAPlainTryThatIsExecutedLateIsUndoneOverItsOwnConnection(t *testing.T) {
	t.Parallel()
	redistest.Repeat(t, "an undo that is written in time", func() bool {
		s := redistest.Start(t)
		monitor := s.Monitor()
		var dials atomic.Int32
		pool := &redis.Pool{MaxIdle: 1, Dial: func() (redis.Conn, error) {
			if dials.Add(1) > 1 {
				return nil, errors.New("one connection is all there is")
			}
			return redis.Dial("tcp", s.Addr())
		}}
		t.Cleanup(func() { pool.Close() })
		c := newClient(t, struct{ *redis.Pool }{pool}, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(time.Second))
		warm := c.Mutex("warm")
		warm.Lock()
		warm.Unlock()
		s.Pause()
		_, late := redistest.Overrun(0, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			require.ErrorIs(t, c.Mutex("k").LockContext(ctx, 0), context.DeadlineExceeded)
		})
		s.Resume()
		require.Len(t, monitor.Executed("SET", "k"), 1, "it was executed late")
		soon := time.Now().Add(time.Second)
		redistest.Wait(t, "it was undone", func() bool {
			return !s.Exists("k") || late > 50*time.Millisecond && time.Now().After(soon)
		})
		return !s.Exists("k")
	})
}

// The refusal of the try arrives when the undo is already written, so two replies have to be received.
func TestAConnectionOnWhichATryWasUndoneOwesNothing(t *testing.T) {
	t.Parallel()
	for name, fate := range map[string]redistest.Fate{
		"granted": {},
		"refused": {Reply: "-OOM command not allowed when used memory > 'maxmemory'.\r\n"},
	} {
		redistest.Repeat(t, "a reply between the undo and the end of the grace", func() bool {
			s := redistest.Start(t)
			front := redistest.NewFront(t, s)
			raw, err := redis.Dial("tcp", front.Addr())
			require.NoError(t, err)
			t.Cleanup(func() { raw.Close() })
			p := &lender{conns: make(chan redis.Conn, 1)}
			p.conns <- raw
			c := newClient(t, p, redimutex.WithTTL(time.Hour), redimutex.WithNodeTimeout(100*time.Millisecond))
			warm := c.Mutex("warm")
			if warm.LockContext(t.Context(), time.Second) != nil || warm.UnlockContext(t.Context()) != nil {
				return false // the only connection may have broken
			}
			late := make(chan struct{}, 1)
			front.On(func(command []string) redistest.Fate {
				if command[0] != "SET" {
					return redistest.Fate{}
				}
				redistest.Wait(t, "the undo is written", func() bool { return p.sends.Load() == 2 || raw.Err() != nil })
				late <- struct{}{}
				return fate
			})
			_ = c.Mutex("k").LockContext(t.Context(), 10*time.Millisecond)
			again := p.Get() // returns when the try has ended
			defer again.Close()
			front.On(nil)
			select {
			case <-late:
			default: // nothing was sent within 10 ms
				return false
			}
			require.False(t, p.owing.Load(), name)
			return again.Err() == nil
		})
	}
}

// A lender is not a redigo pool. It passes the same connection from one user to the next as it is.
type lender struct {
	conns chan redis.Conn
	sends atomic.Int32 // how often something was written whose reply is received later
	owing atomic.Bool  // a connection came back with a reply still to receive
}

func (p *lender) Get() redis.Conn { return &lent{<-p.conns, p} }

type lent struct {
	redis.Conn
	pool *lender
}

func (c *lent) Flush() error {
	defer c.pool.sends.Add(1)
	return c.Conn.Flush()
}

func (c *lent) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, d, command, args...)
}

func (c *lent) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, d)
}

// Close gives the connection back. A reply that is still to come would go to the next user.
func (c *lent) Close() error {
	if c.Err() == nil && c.Send("ECHO", "mine") == nil && c.Conn.Flush() == nil {
		reply, err := redis.ReceiveWithTimeout(c.Conn, 10*time.Second)
		if mine, _ := redis.String(reply, err); c.Err() == nil && mine != "mine" {
			c.pool.owing.Store(true)
		}
	}
	c.pool.conns <- c.Conn
	return nil
}
