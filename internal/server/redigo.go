package server

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/punctual"
)

// Here is what we know of the habits of redigo and of the pools that are built on it.

// A checkout is how connections come out of a pool.
type checkout struct {
	// get checks a connection out.
	get func(context.Context) (redis.Conn, error)
	// punctual pools and their connections keep the deadline of a ctx and hear of its end in all phases. Everything else is
	// used by a goroutine that nobody has to wait for: a Dial, a TestOnBorrow, a connection
	// without timeouts or a pool that we don't know may block for as long as the server hangs.
	punctual bool
	// cluster says that connections go to another server for each key.
	cluster bool
}

func newCheckout(pool Pool) checkout {
	c := checkout{}
	switch p := pool.(type) {
	case *redis.Pool:
		c.punctual = punctual.Pool(p)
	case interface{ Punctual() }: // *mux.Pool
		c.punctual = true
	case interface {
		EachNode(bool, func(string, redis.Conn) error) error
	}: // *redisc.Cluster
		c.cluster = true
	}
	c.get = getter(pool)
	return c
}

func getter(pool Pool) func(context.Context) (redis.Conn, error) {
	if p, ok := pool.(*redis.Pool); ok && p != nil && p.Wait && p.MaxActive > 0 {
		return func(ctx context.Context) (redis.Conn, error) { return vacant(ctx, p) }
	}
	if p, ok := pool.(interface {
		GetContext(context.Context) (redis.Conn, error)
	}); ok {
		return p.GetContext
	}
	return func(context.Context) (redis.Conn, error) {
		c := pool.Get()
		if err := c.Err(); err != nil {
			c.Close()
			return nil, err
		}
		return c, nil
	}
}

// vacant checks a connection out of a pool that has its callers wait. redigo v1.9.3 panics where such a pool has been closed
// and the ctx ends: it gives a place back to a channel that is closed. Clean-up may be late enough to meet that.
func vacant(ctx context.Context, p *redis.Pool) (c redis.Conn, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case runtime.Error:
			if r.Error() != "send on closed channel" {
				panic(r)
			}
			c, err = nil, errClosedPool
		default:
			panic(r)
		}
	}()
	return p.GetContext(ctx)
}

var errClosedPool = errors.New("get on closed pool")

// dialler returns how to make a connection that is not the pool's; or borrows one, where that can't be had.
func dialler(pool Pool) (dial func(context.Context) (redis.Conn, error), borrowed bool) {
	switch p := pool.(type) {
	case *redis.Pool:
		if p.DialContext != nil {
			return p.DialContext, false
		}
		if p.Dial != nil {
			return func(context.Context) (redis.Conn, error) { return p.Dial() }, false
		}
	case interface {
		Dialler() (func(context.Context) (redis.Conn, error), bool)
	}: // *mux.Pool, whose own connections are shared
		return p.Dialler()
	case interface{ Dial() (redis.Conn, error) }: // *redisc.Cluster
		return func(context.Context) (redis.Conn, error) { return p.Dial() }, false
	}
	return func(context.Context) (redis.Conn, error) {
		c := pool.Get()
		return c, c.Err()
	}, true
}

// A binder is a connection to a cluster, which has to be told the key that it is for before it can be
// used for scripts: it would take the hash of a script for the key.
type binder interface{ Bind(keys ...string) error }

// errNoTimeout is redigo's answer of a connection that cannot do DoWithTimeout. redigo does not
// export it, so we ask once.
var _, errNoTimeout = redis.DoWithTimeout(struct{ redis.Conn }{}, 0, "")

// doWithin runs a command on a connection that may not keep deadlines.
func doWithin(c redis.Conn, d time.Duration, command string, args ...any) (any, error) {
	reply, err := redis.DoWithTimeout(c, d, command, args...)
	if err == errNoTimeout { //nolint:errorlint // the very value; nothing was sent
		reply, err = c.Do(command, args...)
	}
	return reply, err
}

// receiveWithin reads the next reply of a pipeline from one.
func receiveWithin(c redis.Conn, d time.Duration) (any, error) {
	reply, err := redis.ReceiveWithTimeout(c, d)
	if err == errNoTimeout { //nolint:errorlint // the very value; nothing was read
		reply, err = c.Receive()
	}
	return reply, err
}

// discard makes a connection one that its pool does not keep. redigo's pools throw away what is broken, and a
// connection is broken by a reply that does not come in time.
func discard(c redis.Conn) {
	if d, ok := c.(interface{ Discard() }); ok { // *mux.Conn
		d.Discard()
		return
	}
	if _, err := redis.DoWithTimeout(c, time.Nanosecond, "PING"); err == errNoTimeout { //nolint:errorlint // the very value
		_, _ = c.Do("QUIT") // the server hangs up, and the next user finds it broken
	}
}

// errTimeout is what a command gets that the server did not answer before its deadline.
var errTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string   { return "no answer before the node timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }
func (timeoutError) Is(target error) bool {
	return target == context.DeadlineExceeded
}

// normalize folds the shapes in which redigo, the net package and context report that time ran
// out into one error, and masks what must not be seen.
func normalize(err error) error {
	if errors.Is(err, errTimeout) {
		return err
	}
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("%w (%v)", errTimeout, mask(err))
	}
	return mask(err)
}
