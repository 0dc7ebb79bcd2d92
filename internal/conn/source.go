// Package conn is the one way to a connection. It knows the pools of redigo and those that are built on it: what kind of
// pool it is, how a connection comes out of it, how to dial one beside it, which deadlines it keeps, and what must not be
// seen of what it says. Operations, subscriptions and multiplexed connections all begin here.
//
// It also makes connections of redigo that are punctual: their operations end with their contexts in every phase, dial, TLS
// handshake, AUTH, CLIENT SETNAME, SELECT and command. A caller with a bound needs no second goroutine to watch them.
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

// A Source is a pool, and what is known of it. Its methods may be called from any goroutine.
type Source struct {
	Pool Pool
	// Punctual pools and their connections keep the deadline of a ctx, and hear of its end, in all phases. All others
	// must be used on a goroutine that no caller waits for: a Dial, a TestOnBorrow, a connection without timeouts or a
	// pool that we don't know may block for as long as the server hangs.
	Punctual bool
	// Keeps says that the pool may keep the ctx of a checkout, or wait for its Done. Else it asks for the deadline alone.
	Keeps bool
	// Cluster says that each key may lead to another server; Scattered, that it may do so as far as we know.
	Cluster, Scattered bool
	// Lifetime is how long a connection may be used; 0: no limit.
	Lifetime time.Duration
	// Limit is how many connections the pool may have; 0: any number. Redials is how often an operation may go on over
	// another connection, in place of one that is broken or leads to a replica.
	Limit, Redials int
	// Dial makes a connection that does not count against the limit of the pool. It returns when its ctx ends, at the
	// latest, and leaves a dial behind that does not. It is nil where the pool does not tell how to dial.
	Dial Dial
	// Listen is Dial for a connection that carries no commands of ours: for a subscription.
	Listen Dial

	hung hung
}

type Dial = func(context.Context) (redis.Conn, error)

// Of returns the Source that pool is, or that it has made of itself. It does not connect.
func Of(pool Pool) *Source {
	if p, ours := pool.(interface{ Source() *Source }); ours {
		return p.Source()
	}
	s := &Source{Pool: pool, Redials: 20, Keeps: true}
	switch p := pool.(type) {
	case *redis.Pool:
		if p != nil {
			s.Punctual = punctual(p)
			s.Keeps = p.Wait && p.MaxActive > 0 || !s.Punctual && (p.DialContext != nil || p.TestOnBorrowContext != nil)
			s.Lifetime, s.Limit, s.Dial = p.MaxConnLifetime, max(p.MaxActive, 0), s.bounded(dialOf(p))
		}
	case interface{ Dial() (redis.Conn, error) }:
		_, s.Cluster = pool.(interface { // *redisc.Cluster
			EachNode(bool, func(string, redis.Conn) error) error
		})
		s.Scattered = inside(pool) == nil
		s.Dial = s.bounded(func(context.Context) (redis.Conn, error) { return p.Dial() })
	}
	if s.Listen = s.Dial; s.Dial == nil {
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

// bounded returns a dial that ends with its ctx, and whose errors are as [Plain] has them.
func (s *Source) bounded(dial Dial) Dial {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context) (redis.Conn, error) {
		c, err := s.hung.dial(ctx, dial)
		return c, Plain(err)
	}
}

// inside returns the pool of redigo that another pool shows that it is made of: the only such field, embedded or
// exported. The outer pool may do something to its connections, such as choosing a database, so what the inner one dials is
// good for listening and for nothing else.
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
				return nil // which of them, we can't know
			}
			found = p
		}
	}
	return found
}

// Full reports whether the pool has all its connections in use, so that waiting for one says nothing of the server.
func (s *Source) Full() bool {
	p, ok := s.Pool.(*redis.Pool)
	if !ok || p.MaxActive <= 0 {
		return false
	}
	now := p.Stats()
	return now.ActiveCount-now.IdleCount >= p.MaxActive // the idle ones are active, too
}

// Idle reports whether the pool has a connection that is not in use, as far as it tells.
func (s *Source) Idle() bool {
	p, ok := s.Pool.(*redis.Pool)
	return ok && p.IdleCount() > 0
}

// ErrPoolClosed is the error of a pool of redigo that was closed, which it stays.
var ErrPoolClosed = errors.New("the pool was closed: close the Client first")

// Get checks a connection out of the pool, within ctx where the pool can do that. Errors are as [Plain] has them.
// A panic of the pool is one of them. redigo v1.9.3 panics where a pool that has its callers wait is closed and the ctx ends:
// it gives a place back to a channel that is closed. Clean-up may be late enough to meet that.
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
			_ = c.Err() // as in hung.dial; one that has broken is told by its first command
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

// A hung counts the dials that go on although their callers have gone: they may block for as long as they like. While
// maxHung of them do, no other begins; those that began together may be more.
type hung struct{ atomic.Int32 }

const maxHung = 16

var errHung = errors.New("too many dials hang already")

// dial returns what f does, or the error of ctx when that ends. A connection that is made later is closed.
func (h *hung) dial(ctx context.Context, f Dial) (redis.Conn, error) {
	if err := Ended(ctx); err != nil || h.Load() >= maxHung { // f may take no notice of ctx
		return nil, cmp.Or(err, errHung)
	}
	if deadline, ok := ctx.Deadline(); ok { // ctx need not end by itself
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	type outcome struct {
		conn redis.Conn
		err  error
	}
	done := make(chan outcome) // either both sides see the outcome on it, or both that ctx has ended
	tried := func() (c redis.Conn, err error) {
		defer Caught(&err)
		if c, err = f(ctx); err == nil {
			_ = c.Err() // panics here, and not in the middle of an operation, if there is no connection
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

// ErrPanicked is the error of what panicked. A connection may then be out of step with its replies.
var ErrPanicked = errors.New("the pool panicked")

// Caught makes a panic an error. It has to be deferred itself. What is the user's may run on a goroutine of ours, where a
// panic would end the process.
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
