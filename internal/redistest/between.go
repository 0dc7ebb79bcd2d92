package redistest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Between is a pool of real connections with a test in between. The test sees every command, decides when and whether the
// server executes it, and chooses the reply.
type Between struct {
	pool *redis.Pool

	mu   sync.Mutex
	what Interception
}

// An Interception gets a command before the server does. The caller of the command gets what the Interception returns. An error
// that is not a redis.Error breaks the connection, as in redigo.
type Interception func(command Command) (any, error)

// A Command is what a client wants to send to the server.
type Command struct {
	Name string
	Args []any
	Run  func() (any, error) // makes the server execute it, and returns the reply
}

// ErrCut is the error of a connection that went away, for Interceptions to return.
var ErrCut = errors.New("the connection was cut")

// Cut is the Interception of a server that can't be reached: each connection breaks at its next command.
func Cut(Command) (any, error) { return nil, ErrCut }

// NewBetween returns a pool that lets everything pass until the first Set.
func NewBetween(pool *redis.Pool) *Between { return &Between{pool: pool} }

// Set makes every command from now on go through what; nil lets everything pass.
func (b *Between) Set(what Interception) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.what = what
}

// Hold makes every command from now on wait until let is called, which may be done once. Then the server executes it.
func (b *Between) Hold() (let func()) {
	goOn := make(chan struct{})
	b.Set(func(command Command) (any, error) {
		<-goOn
		return command.Run()
	})
	return func() { close(goOn) }
}

func (b *Between) current() Interception {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.what
}

// Get is for callers that have no context.
func (b *Between) Get() redis.Conn { return &betweenConn{Conn: b.pool.Get(), between: b} }

// GetContext gets a connection of the real pool.
func (b *Between) GetContext(ctx context.Context) (redis.Conn, error) {
	c, err := b.pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	return &betweenConn{Conn: c, between: b}, nil
}

// A betweenConn sends each command of a pipeline only when its reply is wanted, so that an Interception can keep the command
// from the server.
type betweenConn struct {
	redis.Conn
	between *Between

	mu     sync.Mutex // one goroutine may send while another receives
	sent   []Command
	broken error
}

func (c *betweenConn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

func (c *betweenConn) Err() error {
	if err := c.failure(); err != nil {
		return err
	}
	return c.Conn.Err()
}

// Close makes the server execute commands whose replies were never asked for, as a real connection does.
func (c *betweenConn) Close() error {
	for c.failure() == nil {
		next, ok := c.next()
		if !ok {
			break
		}
		if _, err := redis.DoWithTimeout(c.Conn, time.Second, next.Name, next.Args...); err != nil {
			break
		}
	}
	return c.Conn.Close()
}

func (c *betweenConn) Do(command string, args ...any) (any, error) {
	if command == "" {
		return c.receiveAll(0)
	}
	return c.run(Command{command, args, func() (any, error) { return c.Conn.Do(command, args...) }})
}

func (c *betweenConn) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	if command == "" {
		return c.receiveAll(d)
	}
	return c.run(Command{command, args, func() (any, error) { return redis.DoWithTimeout(c.Conn, d, command, args...) }})
}

func (c *betweenConn) Send(command string, args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, Command{Name: command, Args: slices.Clone(args)})
	return c.broken
}

func (c *betweenConn) Flush() error { return c.failure() }

func (c *betweenConn) Receive() (any, error) { return c.ReceiveWithTimeout(0) }

func (c *betweenConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	next, ok := c.next()
	if !ok {
		return nil, errors.New("nothing was sent that could be received")
	}
	return c.DoWithTimeout(d, next.Name, next.Args...)
}

// receiveAll returns all replies, as Do("") of redigo does.
func (c *betweenConn) receiveAll(d time.Duration) (any, error) {
	replies := []any{}
	for {
		next, ok := c.next()
		if !ok {
			return replies, c.failure()
		}
		reply, err := c.DoWithTimeout(d, next.Name, next.Args...)
		var refused redis.Error
		switch {
		case errors.As(err, &refused):
			reply = refused
		case err != nil:
			return nil, err
		}
		replies = append(replies, reply)
	}
}

func (c *betweenConn) next() (first Command, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sent) == 0 {
		return Command{}, false
	}
	first, c.sent = c.sent[0], c.sent[1:]
	return first, true
}

func (c *betweenConn) run(command Command) (any, error) {
	if err := c.failure(); err != nil {
		return nil, err
	}
	what := c.between.current()
	if what == nil {
		return command.Run()
	}
	reply, err := what(command)
	var refused redis.Error
	if err != nil && !errors.As(err, &refused) {
		c.mu.Lock()
		c.broken = err
		c.mu.Unlock()
	}
	return reply, err
}
