package server

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// queueTTL is how long a queue outlives the last waiter who came by. Live waiters come by every second.
const queueTTL = 30 * time.Second

// QueueKey is the name of the queue of key.
func QueueKey(key string) string { return Sibling(key, "queue") }

// member is what stands for the waiter in the queue; handover.lua takes it apart.
func (r *Request) member() string {
	switch {
	case r.Channel == "":
		return ""
	case r.Fencing:
		return r.Channel + " 1 " + r.Waiter
	}
	return r.Channel + " 0 " + r.Waiter
}

// acquireQueued is what follows EVALSHA for acquire_queued.lua.
func (a *arguments) acquireQueued(r *Request, due int64, pinned bool) []any {
	a.remember(r)
	list := append(a.list[:0], nil, 3, a.key, QueueKey(r.Key), FenceKey(r.Key))
	if r.Guard {
		list[1] = 4
		list = append(list, guardKey)
	}
	return append(list, a.token, a.ttl, due, (r.TTL + fenceTTL).Milliseconds(), r.member(), r.Arrived,
		r.Claim.Milliseconds(), queueTTL.Milliseconds(), pinned, r.Fencing)
}

// releaseQueued is what follows EVALSHA for release_queued.lua.
func (a *arguments) releaseQueued(r *Request, pinned bool) []any {
	a.remember(r)
	return append(a.list[:0], nil, 3, a.key, QueueKey(r.Key), FenceKey(r.Key),
		a.token, r.member(), r.Claim.Milliseconds(), (r.TTL + fenceTTL).Milliseconds(), pinned)
}

// Dial returns a connection that does not count against the limit of the pool, where the pool can
// be asked for one. The caller closes it.
func (s *Server) Dial(ctx context.Context) (redis.Conn, error) {
	switch p := s.pool.(type) {
	case *redis.Pool:
		if p.DialContext != nil {
			return p.DialContext(ctx)
		}
		if p.Dial != nil {
			return p.Dial()
		}
	case interface{ Dial() (redis.Conn, error) }: // *redisc.Cluster
		return p.Dial()
	}
	c := s.pool.Get()
	return c, c.Err()
}
