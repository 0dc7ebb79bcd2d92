package redistest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Between is a pool of real connections with a test in between: it sees every command, and
// decides when it runs, whether it runs, and what the caller hears.
type Between struct {
	pool *redis.Pool

	mu   sync.Mutex
	what Interception
}

// An Interception gets a command and run, which has the server execute it. What it returns is
// what the caller hears. An error that is not a redis.Error breaks the connection, as it does in
// redigo.
type Interception func(run func() (any, error), command string, args []any) (any, error)

// ErrCut is a connection that went away, for Interceptions to return.
var ErrCut = errors.New("the connection was cut")

// NewBetween returns a pool that lets everything pass until the first Set.
func NewBetween(pool *redis.Pool) *Between { return &Between{pool: pool} }

// Set has what come between from the next command on; nil lets everything pass.
func (b *Between) Set(what Interception) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.what = what
}

func (b *Between) current() Interception {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.what
}

// Get is for callers that can't wait for a connection with a context.
func (b *Between) Get() redis.Conn { return &betweenConn{Conn: b.pool.Get(), between: b} }

// GetContext gets a connection of the real pool.
func (b *Between) GetContext(ctx context.Context) (redis.Conn, error) {
	c, err := b.pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	return &betweenConn{Conn: c, between: b}, nil
}

// A betweenConn sends each command of a pipeline only when its reply is wanted, so that an
// Interception can keep it from the server.
type betweenConn struct {
	redis.Conn
	between *Between
	sent    []sent
	broken  error
}

type sent struct {
	command string
	args    []any
}

func (c *betweenConn) Err() error {
	if c.broken != nil {
		return c.broken
	}
	return c.Conn.Err()
}

func (c *betweenConn) Close() error { return c.Conn.Close() }

func (c *betweenConn) Do(command string, args ...any) (any, error) {
	return c.run(command, args, func() (any, error) { return c.Conn.Do(command, args...) })
}

func (c *betweenConn) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	return c.run(command, args, func() (any, error) { return redis.DoWithTimeout(c.Conn, d, command, args...) })
}

func (c *betweenConn) Send(command string, args ...any) error {
	c.sent = append(c.sent, sent{command, args})
	return c.broken
}

func (c *betweenConn) Flush() error { return c.broken }

func (c *betweenConn) Receive() (any, error) { return c.ReceiveWithTimeout(0) }

func (c *betweenConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	if len(c.sent) == 0 {
		return nil, errors.New("nothing was sent that could be received")
	}
	next := c.sent[0]
	c.sent = c.sent[1:]
	return c.DoWithTimeout(d, next.command, next.args...)
}

func (c *betweenConn) run(command string, args []any, run func() (any, error)) (any, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	what := c.between.current()
	if what == nil || command == "" {
		return run()
	}
	reply, err := what(run, command, args)
	var refused redis.Error
	if err != nil && !errors.As(err, &refused) {
		c.broken = err
	}
	return reply, err
}
