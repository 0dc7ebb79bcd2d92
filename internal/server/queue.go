package server

import (
	"context"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

// queueTTL is how long a queue outlives the last waiter who came by. Live waiters come by every second.
const queueTTL = 30 * time.Second

// QueueKey is the name of the queue of key.
func QueueKey(key string) string { return Sibling(key, "queue") }

// member is what stands for the waiter of that name in the queue; handover.lua takes it apart.
func (r *Request) member(waiter string) string {
	if waiter == "" {
		return ""
	}
	fencing := " 0 "
	if r.Fencing {
		fencing = " 1 "
	}
	return r.Channel + fencing + strconv.FormatInt(r.Claim.Milliseconds(), 10) + " " + waiter
}

// acquireQueued is what follows EVALSHA for acquire_queued.lua.
func (a *arguments) acquireQueued(r *Request, due int64, pinned bool) []any {
	a.remember(r)
	list := append(a.list[:0], nil, 3, a.key, QueueKey(r.Key), FenceKey(r.Key))
	if r.Guard {
		list[1] = 4
		list = append(list, guardKey)
	}
	return append(list, a.token, a.ttl, due, (r.TTL + fenceTTL).Milliseconds(), r.member(r.Waiter), r.Arrived,
		r.Claim.Milliseconds(), queueTTL.Milliseconds(), pinned, r.Fencing)
}

// releaseQueued is what follows EVALSHA for release_queued.lua.
func (a *arguments) releaseQueued(r *Request, pinned bool) []any {
	a.remember(r)
	heir := ""
	if r.Heir != nil {
		heir = r.member(r.Heir.Name)
	}
	return append(a.list[:0], nil, 3, a.key, QueueKey(r.Key), FenceKey(r.Key),
		a.token, r.member(r.Waiter), (r.TTL + fenceTTL).Milliseconds(), pinned, heir)
}

// Dial returns a connection that does not count against the limit of the pool, where the pool can
// be asked for one; else it is borrowed from the pool. The caller closes it. A pool that takes no
// context may go on dialling after ctx has ended; nobody waits for that.
func (s *Server) Dial(ctx context.Context) (conn redis.Conn, borrowed bool, err error) {
	type result struct {
		conn redis.Conn
		err  error
	}
	dial, borrowed := s.dialler()
	results := make(chan result)
	go func() {
		c, err := dial(ctx)
		if err != nil && c != nil {
			c.Close()
		}
		select {
		case results <- result{c, err}:
		case <-ctx.Done():
			if err == nil {
				c.Close()
			}
		}
	}()
	select {
	case r := <-results:
		return r.conn, borrowed, r.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// dialler returns how to make a connection for Dial.
func (s *Server) dialler() (dial func(context.Context) (redis.Conn, error), borrowed bool) {
	switch p := s.pool.(type) {
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
		c := s.pool.Get()
		return c, c.Err()
	}, true
}
