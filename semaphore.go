package redimutex

import (
	"context"
	"strconv"

	"github.com/redimutex/redimutex/internal/server"
)

// A Semaphore admits a limited number of holders at a time, over all processes that share a Redis. Each holder has one permit.
// A permit is a lease of its own, as with a [Mutex]: it is renewed, and its loss is reported. The permit of a crashed holder
// is free again when its TTL is over.
//
// Make it with [NewSemaphore] or [Client.Semaphore]; the zero value is not usable. It is safe for concurrent use, must not be
// copied, and may have many holds at once.
//
// Each call sends the limit, and the server does not store it. No call gets a permit that would exceed the limit it sent. If
// limits differ, as during a deployment, a process with a lower limit waits until enough holders have left.
//
// Without [WithQueue] waiters poll, and chance decides which is next. With it, permits are given in order of arrival, one
// release wakes as many waiters as there is room for, and the first in the queue blocks those behind it.
//
// A permit has no [Lease.Fence], because simultaneous holders have no order. It can't be handed over. Permits expire by the
// clock of the server: if that is set forward by a TTL, permits of live holders expire, and too many holders get in.
type Semaphore struct {
	object
	permits int
}

// NewSemaphore returns a Semaphore for key on one Redis server. It is short for
// NewClient([]Pool{pool}, opts...).Semaphore(key, permits), and panics for the same reasons.
func NewSemaphore(pool Pool, key string, permits int, opts ...Option) *Semaphore {
	return NewClient([]Pool{pool}, opts...).Semaphore(key, permits)
}

// Semaphore returns a Semaphore for key that admits as many holders at a time as permits says, with the options of the Client
// and those given here. Semaphores of one Client with the same key are different objects that share the permits.
//
// It panics if the Client has several servers, because a count by majority admits too many holders. Say three servers and a
// limit of two: one holder has votes from servers 1 and 2, another from 2 and 3, a third from 1 and 3. Each has a majority,
// and no server has counted more than two.
//
// It also panics if permits is less than 1, and for the reasons of [Client.Mutex]. A Semaphore can't have [WithFencing],
// [WithLeaseReuse], [WithMinHold] or [WithReentrancy], neither here nor from the Client.
func (c *Client) Semaphore(key string, permits int, opts ...Option) *Semaphore {
	c.mustBeKey("a Semaphore", key)
	must(permits > 0, "Semaphore(%q, %d): the number of permits has to be 1 at least", key, permits)
	must(len(c.pools) == 1, "Semaphore(%q, %d): this Client has %d servers, and a count by majority lets more in "+
		"(three servers, limit 2: holders on 1+2, 2+3, 1+3); make it by a Client of one server", key, permits, len(c.pools))
	config := c.configured(c.config, opts).of(server.Semaphore)
	t := &config.terms
	t.Want = strconv.Itoa(permits)
	must(t.Fence == server.NoFence, "WithFencing: not with a Semaphore, whose holders at the same time have no order; leave it out, here and for the Client")
	must(t.Reuse == 0, "WithLeaseReuse(%v): not with a Semaphore, whose permits are given back at once; leave it out, here and for the Client", t.Reuse)
	must(t.MinHold == 0, "WithMinHold(%v): not with a Semaphore, whose permits are given back at once; leave it out, here and for the Client", t.MinHold)
	must(!config.reentrant, "WithReentrancy: not with a Semaphore, where each Do has a permit of its own; leave it out, here and for the Client")
	return &Semaphore{object: object{client: c, config: config, key: key}, permits: permits}
}

// Acquire waits for a permit until ctx ends, and returns the hold. [Lease.Release] gives the permit back. The errors are those
// of [Mutex.LockContext]. [ErrLocked] says that the limit is reached, and the [LockedError] is about one of the holders.
func (s *Semaphore) Acquire(ctx context.Context) (*Lease, error) { return s.acquire(ctx, 0) }

// TryAcquire tries once to get a permit, as [Mutex.TryLockContext] does, with its errors. If another call has just been cut
// short by its ctx, the permit of that call may not be back yet.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Lease, error) { return s.acquire(ctx, tryOnce) }

// Do waits for a permit, runs f, and gives the permit back, as [Mutex.Do] does with a lock. The ctx of f ends when the permit
// is lost, and [LeaseFrom] finds the hold in it.
//
// Each Do takes a permit of its own, also inside f with the ctx of f. Mind the limit: if all permits are held by Dos that wait
// for a second permit, they wait until their contexts end.
func (s *Semaphore) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return s.do(ctx, f, 0)
}

// TryDo is [Semaphore.Do], but tries only once. If that fails, it returns the error of [Semaphore.TryAcquire].
func (s *Semaphore) TryDo(ctx context.Context, f func(ctx context.Context) error) error {
	return s.do(ctx, f, tryOnce)
}

// Permits returns how many holders s admits at a time.
func (s *Semaphore) Permits() int { return s.permits }

// InUse asks the server how many permits are in use just now, over all processes. That may be more than Permits, if other
// processes send a higher limit. It takes at most one node timeout.
//
// The error matches [ErrUnavailable] when the server did not answer, [ErrClosed] when the Client is closed, and the cause of
// ctx when that ended. If the key is of another kind, or the server refuses, it is a [NodeError] that says so.
func (s *Semaphore) InUse(ctx context.Context) (int, error) {
	must(s.client != nil, zeroValue)
	n, f := s.client.engine.InUse(ctx, s.key, &s.config.terms)
	if f != nil {
		return 0, s.toError(ctx, f)
	}
	return n, nil
}
