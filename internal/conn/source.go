// Package conn is the only way to a connection. It knows redigo's pools and those that are built on redigo: what kind a pool
// is, how to get a connection from it, how to dial one beside it, which deadlines it keeps, and what must be masked in its
// errors. Operations, subscriptions and multiplexed connections all begin here.
//
// It also makes punctual redigo connections. Their operations end with their contexts in every phase: dial, TLS handshake,
// AUTH, CLIENT SETNAME, SELECT and command. A caller with a bound needs no second goroutine to watch them.
package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Pool is where connections come from.
type Pool interface{ Get() redis.Conn }

// A Source is a pool and what is known about it. Its methods are safe for concurrent use.
type Source struct {
	Pool Pool
	// Punctual says that the pool and its connections keep the deadline of a ctx, and notice its cancellation, in all phases.
	// Any other pool must be used on a goroutine that no caller waits for: a Dial, a TestOnBorrow, a connection without
	// timeouts or an unknown kind of pool may block for as long as the server hangs.
	Punctual bool
	// KeepsContext says that the pool may keep the ctx of a checkout or wait for its Done. Otherwise it only reads the deadline.
	KeepsContext bool
	// Cluster says that each key may lead to another server. Scattered says that this is so or can't be ruled out.
	Cluster, Scattered bool
	// Lifetime is how long a connection may be used; 0: no limit.
	Lifetime time.Duration
	// Limit is how many connections the pool may have; 0: any number. Redials is how often an operation may go on over another
	// connection, because the one before is broken or leads to a replica.
	Limit, Redials int
	// Dial makes a connection that does not count against the limit of the pool. It returns when its ctx ends at the latest,
	// and leaves a dial running that ignores its ctx. It is nil if the pool does not show how to dial.
	Dial Dial
	// Listen is Dial for a subscription, a connection that carries no commands of this library.
	Listen Dial

	hung hung
}

type Dial = func(context.Context) (redis.Conn, error)

// Of returns the pool's own Source, or makes one for a pool that has none. It does not connect.
func Of(pool Pool) *Source {
	if p, ours := pool.(interface{ Source() *Source }); ours {
		return p.Source()
	}
	s := &Source{Pool: pool, Redials: 20, KeepsContext: true}
	switch p := pool.(type) {
	case *redis.Pool:
		if p != nil {
			s.Punctual = punctual(p)
			s.KeepsContext = p.Wait && p.MaxActive > 0 || !s.Punctual && (p.DialContext != nil || p.TestOnBorrowContext != nil)
			s.Lifetime, s.Limit, s.Dial = p.MaxConnLifetime, max(p.MaxActive, 0), s.bounded(dialOf(p))
		}
	case interface{ Dial() (redis.Conn, error) }:
		_, s.Cluster = pool.(interface { // *redisc.Cluster
			EachNode(bool, func(string, redis.Conn) error) error
		})
		s.Scattered = inside(pool) == nil
		s.Dial = s.bounded(func(context.Context) (redis.Conn, error) { return p.Dial() })
	}
	s.Listen = s.Dial
	if s.Dial == nil {
		s.Listen = s.bounded(dialOf(inside(pool)))
	}
	return s
}

func dialOf(p *redis.Pool) Dial {
	switch {
	case p == nil:
		return nil
	case p.DialContext != nil:
		return p.DialContext
	case p.Dial != nil:
		return func(context.Context) (redis.Conn, error) { return p.Dial() }
	}
	return nil
}

// bounded returns a dial that ends with its ctx. Its errors have gone through [Plain].
func (s *Source) bounded(dial Dial) Dial {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context) (redis.Conn, error) {
		c, err := s.hung.dial(ctx, dial)
		return c, Plain(err)
	}
}

// inside returns the redigo pool inside another pool: its only field of that type, embedded or exported. The outer pool may
// change its connections, for example by choosing a database. So connections of the inner pool are good only for listening.
func inside(pool Pool) (found *redis.Pool) {
	v := reflect.Indirect(reflect.ValueOf(pool))
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		if p, ok := v.Field(i).Interface().(*redis.Pool); ok && p != nil {
			if found != nil {
				return nil // there are two, and either may be the one
			}
			found = p
		}
	}
	return found
}

// Full reports whether all connections of the pool are in use. Then waiting for one says nothing about the server.
func (s *Source) Full() bool {
	p, ok := s.Pool.(*redis.Pool)
	return ok && p.MaxActive > 0 && p.ActiveCount()-p.IdleCount() >= p.MaxActive // ActiveCount includes the idle ones
}

// Idle reports whether the pool says that it has an unused connection.
func (s *Source) Idle() bool {
	p, ok := s.Pool.(*redis.Pool)
	return ok && p.IdleCount() > 0
}

// ErrPoolClosed is the error of a redigo pool that was closed. It can't be opened again.
var ErrPoolClosed = errors.New("the pool was closed: close the Client first")

// Get checks a connection out of the pool, within ctx if the pool can do that. Its errors have gone through [Plain]. A panic
// of the pool becomes an error: redigo v1.9.3 panics if a pool with Wait is closed and a waiting caller's ctx ends, because it
// gives a place back to a closed channel. A late clean-up can meet that.
func (s *Source) Get(ctx context.Context) (c redis.Conn, err error) {
	defer func() {
		if err = Plain(err); errors.Is(err, ErrTimeout) && s.Full() {
			err = Masked("no connection of the pool came free before the node timeout", err)
		}
	}()
	defer Caught(&err)
	if p, ok := s.Pool.(interface {
		GetContext(context.Context) (redis.Conn, error)
	}); ok {
		if c, err = p.GetContext(ctx); err == nil {
			_ = c.Err() // as in hung.dial; a broken connection fails its first command
		} else if _, plain := s.Pool.(*redis.Pool); plain && err.Error() == "redigo: get on closed pool" {
			err = ErrPoolClosed
		}
		return c, err
	}
	c = s.Pool.Get()
	if err = c.Err(); err != nil {
		c.Close()
	}
	return c, err
}

// A hung counts the dials that go on after their callers have left. They may block for any time. While maxHung of them run, no
// new dial begins. Dials that began at the same time may be more than that.
type hung struct{ atomic.Int32 }

const maxHung = 16

var errHung = errors.New("too many dials hang already")

// dial returns what f returns, or the error of ctx if ctx ends first. A connection that f makes after that is closed.
func (h *hung) dial(ctx context.Context, f Dial) (redis.Conn, error) {
	if err := Ended(ctx); err != nil || h.Load() >= maxHung { // f may ignore ctx
		return nil, cmp.Or(err, errHung)
	}
	if deadline, ok := ctx.Deadline(); ok { // Done of ctx need not be closed at the deadline
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	type outcome struct {
		conn redis.Conn
		err  error
	}
	done := make(chan outcome) // unbuffered: both sides see the outcome, or both see that ctx has ended
	tried := func() (c redis.Conn, err error) {
		defer Caught(&err)
		if c, err = f(ctx); err == nil {
			_ = c.Err() // if there is no connection, this panics here and not in the middle of an operation
		}
		return c, err
	}
	go func() {
		c, err := tried()
		select {
		case done <- outcome{c, err}:
		case <-ctx.Done():
			h.Add(-1)
			if err == nil {
				Close(c, false)
			}
		}
	}()
	select {
	case o := <-done:
		return o.conn, o.err
	case <-ctx.Done():
		h.Add(1)
		return nil, ctx.Err()
	}
}

// ErrPanicked is the error of a pool that panicked. A connection may then be out of step with its replies.
var ErrPanicked = errors.New("the pool panicked")

// Caught turns a panic into an error. It must be deferred directly. The user's code may run on a goroutine of this library,
// where a panic would end the process.
func Caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", ErrPanicked, r)
	}
}

// Calm returns what f returns, or its panic as an error.
func Calm(f func() error) (err error) {
	defer Caught(&err)
	return f()
}
