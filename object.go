package redimutex

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/lock"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// An object is what can be held: the part of a Mutex that its Leases need, and that every kind of lock has. What an
// object can do, it can do for many holds at once.
type object struct {
	client *Client
	config *config
	key    string
	more   []string                      // further keys of a MutexAll
	pace   func(tries int) time.Duration // the method pause, made once: each call would allocate it
	reads  *readHolds                    // of an RWMutex
	last   atomic.Pointer[lock.Key]      // of the last hold, which may have left something for the next
}

// init makes o the object of key, and of more keys.
func (o *object) init(c *Client, config *config, key string, more ...string) {
	o.client, o.config, o.key, o.more, o.pace = c, config, key, more, o.pause
}

func (o *object) mustBeMade() {
	must(o.client != nil, "a zero Mutex has no server: make it by New, NewRedlock or Client.Mutex")
}

// acquire gets a hold, with a single try or as long as ctx lasts. current is where the object keeps its hold, or nil if
// it may have many.
func (o *object) acquire(ctx context.Context, once bool, current *atomic.Pointer[Lease]) (*Lease, error) {
	o.mustBeMade()
	c := o.client
	if outer := o.around(ctx); outer != nil && ctx.Err() == nil {
		c.counters.failed.Add(1)
		err := &nestedError{o.key, o.upgrades(outer)}
		if o.traced() {
			o.emit(kindGaveUp, Event{Context: ctx, Err: err})
		}
		return nil, err
	}
	l := &Lease{of: o, current: current}
	l.hold.Observer = (*observer)(l)
	terms := &o.config.terms
	hint := o.last.Load()
	if terms.Reuse > 0 && !once && ctx.Err() == nil && c.engine.Parked(hint, terms, &l.hold) {
		o.acquired(ctx, l, lock.Result{})
		return l, nil
	}
	r := c.engine.Lock(ctx, &lock.Call{
		Key: o.key, More: o.more, Hint: hint, Terms: terms, Once: once, MaxTries: o.config.maxAttempts, Pause: o.pace,
	}, &l.hold)
	if r.Failure != nil {
		c.counters.failed.Add(1)
		err := o.toError(r.Failure, ending{ctx})
		if o.traced() {
			o.emit(kindGaveUp, Event{Context: ctx, Attempt: r.Tries, Wait: r.Wait, Err: err})
		}
		return nil, err
	}
	if terms.Reuse > 0 {
		o.last.Store(r.Key)
	}
	o.acquired(ctx, l, r)
	return l, nil
}

// acquired counts and reports the new hold.
func (o *object) acquired(ctx context.Context, l *Lease, r lock.Result) {
	if l.current != nil {
		l.current.Store(l)
	}
	n := &o.client.counters
	n.acquired.Add(1)
	if r.Wait > 0 {
		n.waitTime.Add(int64(r.Wait))
	}
	if r.Tries > 1 {
		n.contended.Add(1)
	}
	if !o.traced() {
		return
	}
	told := false
	defer func() {
		// If the callback panics or ends the goroutine, the caller never learns that it has the lock.
		if !told && l.claim() {
			_ = l.release(context.Background(), false)
		}
	}()
	o.emit(kindAcquired, Event{Context: ctx, Lease: l, Attempt: r.Tries, Wait: r.Wait, Until: l.Until()})
	told = true
}

// pause returns the wait after so many tries.
func (o *object) pause(tries int) time.Duration {
	switch {
	case o.config.backoff != nil:
		return max(o.config.backoff(tries), 0)
	case o.client.engine.Several():
		// Waiters that split the votes would do so again if they kept step.
		return jitter(o.config.poll)
	}
	return o.config.poll
}

// toError turns what the engine says into the error that the caller gets.
func (o *object) toError(f *lock.Failure, end ending) error {
	switch f.Kind {
	case lock.Servers:
		return o.serversError(f.Servers)
	case lock.Busy:
		return o.lastFailure(f.Servers)
	case lock.Ended:
		if !f.Waited {
			return end.error(o.key, nil)
		}
		return end.error(o.key, o.lastFailure(f.Servers))
	case lock.Closed:
	}
	return closedError(o.key)
}

// lastFailure is the error of what stands in the way: another goroutine of this process, or the last word of the
// servers.
func (o *object) lastFailure(f *quorum.Failure) error {
	if f != nil {
		return o.serversError(f)
	}
	return &LockedError{Key: o.key}
}

// lostKey is the key that was lost: of several that which the servers have named.
func (o *object) lostKey(named string) string {
	if len(o.more) > 0 && named != "" {
		return named
	}
	return o.key
}

// serversError turns what the servers say into the error that the caller gets.
func (o *object) serversError(f *quorum.Failure) error {
	switch f.Kind {
	case quorum.Contended, quorum.Lapsed:
		return &LockedError{Key: o.key, Owner: server.Owner(f.Holder), Left: f.Left}
	case quorum.Missing:
		return &LostError{o.lostKey(f.Key), Deleted}
	case quorum.Taken:
		return &LostError{o.lostKey(f.Key), Taken}
	case quorum.Unavailable, quorum.Refused:
	}
	e := &serversError{key: o.key, refused: f.Kind == quorum.Refused}
	for _, n := range f.Nodes {
		e.nodes = append(e.nodes, &NodeError{n.Node, n.Err})
	}
	return e
}
