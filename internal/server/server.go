// Package server speaks to one Redis server: it checks connections out of the caller's pool, puts a
// deadline on every command, runs the scripts, sorts errors by what a caller would do about them,
// learns the server's clock, and cleans up after commands whose outcome it never heard.
package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Pool is where connections come from.
type Pool interface{ Get() redis.Conn }

// A Server is one vote: one pool of connections to one Redis server, or to one cluster or
// Sentinel-watched group that behaves as one. Its methods may be called from any goroutine.
type Server struct {
	pool       Pool
	getContext func(context.Context) (redis.Conn, error) // nil where the pool has none
	cluster    atomic.Bool                               // it has turned out to be one
	clocks     clocks
	undos      sync.Pool // of *undo
	contexts   sync.Pool // of *deadlineContext
	sweeper    sweeper
}

// New returns the Server behind pool. It does not connect.
func New(pool Pool) *Server {
	s := &Server{pool: pool}
	s.undos.New = func() any { return new(undo) }
	if p, ok := pool.(interface {
		GetContext(context.Context) (redis.Conn, error)
	}); ok {
		s.getContext = p.GetContext
	}
	s.sweeper.server = s
	return s
}

// Direct reports whether an operation can run on the goroutine of a caller that has all the time of
// its deadline: there is a connection to be had that nobody has to dial, nor to test by means that
// know no deadline, or the pool keeps deadlines whatever happens. Otherwise something that we have no
// hold on could block for longer.
func (s *Server) Direct() bool {
	switch p := s.pool.(type) {
	case *redis.Pool:
		return p.TestOnBorrow == nil && p.IdleCount() > 0
	case interface{ Punctual() }: // *mux.Pool
		return true
	}
	return false
}

// Close stops the clean-up of abandoned tries, after one last attempt that takes no longer than d.
func (s *Server) Close(d time.Duration) { s.sweeper.close(d) }

// errTimeout is what a command gets that the server did not answer before its deadline.
var errTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string   { return "no answer before the node timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }
func (timeoutError) Is(target error) bool {
	return target == context.DeadlineExceeded
}

// A session is a connection checked out for one operation, with the moment by which all of it
// must be over.
type session struct {
	conn     redis.Conn
	deadline time.Time
	undos    *sync.Pool
	pinned   bool // bound to the cluster node of one key; no pipelining over several keys
}

// open checks a connection out, bound to the node that serves key where the pool is a cluster.
// The waiting and the dialling end at the deadline if the pool can be told so.
func (s *Server) open(deadline time.Time, key string) (session, error) {
	c, pinned, err := s.bind(deadline, key)
	if err != nil {
		return session{}, err
	}
	if pinned {
		s.cluster.Store(true)
		c = &bound{Conn: c, again: func() (redis.Conn, error) {
			c, _, err := s.bind(deadline, key)
			return c, err
		}}
	}
	return session{conn: c, deadline: deadline, undos: &s.undos, pinned: pinned}, nil
}

func (s *Server) bind(deadline time.Time, key string) (c redis.Conn, pinned bool, err error) {
	if c, err = s.get(deadline); err != nil {
		return nil, false, err
	}
	b, pinned := c.(binder)
	if !pinned {
		return c, false, nil
	}
	if err := b.Bind(key); err != nil {
		c.Close()
		return nil, false, err
	}
	return c, true, nil
}

func (s *Server) get(deadline time.Time) (redis.Conn, error) {
	if s.getContext != nil {
		ctx := s.newDeadlineContext(deadline)
		defer ctx.free()
		c, err := s.getContext(ctx)
		if err != nil {
			return nil, normalize(err)
		}
		return c, nil
	}
	c := s.pool.Get()
	if err := c.Err(); err != nil {
		c.Close()
		return nil, normalize(err)
	}
	return c, nil
}

func (ses session) close() { ses.conn.Close() }

// errNoTimeout is redigo's answer of a connection that cannot do DoWithTimeout. redigo does not
// export it, so we ask once.
var _, errNoTimeout = redis.DoWithTimeout(struct{ redis.Conn }{}, 0, "")

// An untilConn keeps deadlines by itself, as those of *mux.Pool do.
type untilConn interface {
	DoUntil(deadline time.Time, undo []any, command string, args ...any) (any, error)
}

// do runs one command within the deadline of the session.
func (ses session) do(command string, args ...any) (any, error) {
	if c, ok := ses.conn.(untilConn); ok {
		reply, err := c.DoUntil(ses.deadline, nil, command, args...)
		if err != nil {
			return nil, normalize(err)
		}
		return reply, nil
	}
	left := time.Until(ses.deadline)
	if left <= 0 {
		return nil, errTimeout
	}
	reply, err := redis.DoWithTimeout(ses.conn, left, command, args...)
	if err == errNoTimeout { //nolint:errorlint // the very value; nothing was sent
		reply, err = ses.conn.Do(command, args...)
	}
	if err != nil {
		return nil, normalize(err)
	}
	return reply, nil
}

// receive reads the next reply of a pipeline, which has to be there in d.
func (ses session) receive(d time.Duration) (any, error) {
	reply, err := redis.ReceiveWithTimeout(ses.conn, d)
	if err == errNoTimeout { //nolint:errorlint // the very value; nothing was read
		reply, err = ses.conn.Receive()
	}
	if err != nil {
		return nil, normalize(err)
	}
	return reply, nil
}

// normalize folds the shapes in which redigo, the net package and context report that time ran
// out into one error.
func normalize(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("%w (%v)", errTimeout, err)
	}
	return err
}
