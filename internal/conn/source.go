// Package conn is the one way to a connection. It knows the pools of redigo and those that are built on it: what kind of
// pool it is, how a connection comes out of it, how to dial one beside it, which deadlines it keeps, and what must not be
// seen of what it says. Operations, subscriptions and multiplexed connections all begin here.
package conn

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/punctual"
)

// A Pool is where connections come from.
type Pool interface{ Get() redis.Conn }

// A Source is a pool, and what is known of it. Its methods may be called from any goroutine.
type Source struct {
	// Punctual pools and their connections keep the deadline of a ctx, and hear of its end, in all phases. All others
	// must be used on a goroutine that no caller waits for: a Dial, a TestOnBorrow, a connection without timeouts or a
	// pool that we don't know may block for as long as the server hangs.
	Punctual bool
	// Cluster says that each key may lead to another server.
	Cluster bool
	// Lifetime is how long a connection may be used; 0: no limit.
	Lifetime time.Duration

	Pool     Pool
	dial     dialling // nil: the pool does not tell how
	listen   dialling // dial for a connection that carries no commands of ours; nil as well
	behind   punctual.Behind
	sendless atomic.Bool // connections have turned out to know Do, and no pipelines
}

type dialling func(context.Context) (redis.Conn, error)

// Of returns the Source that pool is. It does not connect.
func Of(pool Pool) *Source {
	s := &Source{Pool: pool}
	switch p := pool.(type) {
	case *redis.Pool:
		if p != nil {
			s.Punctual, s.Lifetime, s.dial = punctual.Pool(p), p.MaxConnLifetime, dialOf(p)
		}
	case interface {
		EachNode(bool, func(string, redis.Conn) error) error
		Dial() (redis.Conn, error)
	}: // *redisc.Cluster
		s.Cluster, s.dial = true, withoutContext(p.Dial)
	case interface{ Dial() (redis.Conn, error) }:
		s.dial = withoutContext(p.Dial)
	}
	if _, ok := pool.(interface{ Punctual() }); ok {
		s.Punctual = true
	}
	switch p, shares := pool.(interface{ Shares() *Source }); {
	case shares: // multiplexed; a subscription has to have a connection of its own
		s.listen = p.Shares().Listen
	case s.dial != nil:
		s.listen = s.dial
	default:
		s.listen = dialOf(inside(pool))
	}
	return s
}

func withoutContext(dial func() (redis.Conn, error)) dialling {
	return func(context.Context) (redis.Conn, error) { return dial() }
}

// dialOf returns how p dials; nil if it can't.
func dialOf(p *redis.Pool) dialling {
	if p == nil || p.DialContext == nil && p.Dial == nil {
		return nil
	}
	return func(ctx context.Context) (redis.Conn, error) {
		if p.DialContext != nil {
			return p.DialContext(ctx)
		}
		return p.Dial()
	}
}

// inside returns the pool of redigo that another pool shows that it is made of: the only such field, embedded or
// exported. The caller that wraps a pool may do something to its connections, such as choosing a database, so what the inner one
// dials is good for listening and for nothing else.
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

// CanDial reports whether the Source can make a connection that does not count against the limit of its pool.
func (s *Source) CanDial() bool { return s.dial != nil }

// CanListen reports whether Listen can work.
func (s *Source) CanListen() bool { return s.listen != nil }

// Full reports whether the pool has as many connections in use as it may, so that waiting for one says nothing of the
// server.
func (s *Source) Full() bool {
	p, ok := s.Pool.(*redis.Pool)
	if !ok || p.MaxActive <= 0 {
		return false
	}
	now := p.Stats()
	return now.ActiveCount-now.IdleCount >= p.MaxActive // the idle ones are active, too
}

var errNoDial = errors.New("the pool does not tell how to dial a connection")
