package redimutex

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A Trace is a set of functions to be called as things happen to locks, like [net/http/httptrace.ClientTrace]. Any of them may
// be nil. They are called on the goroutine that locks, renews or unlocks. So they must return soon. They must not panic, and
// must not lock, unlock or close anything of this package.
//
// Every call that wants a lock of its own ends with Acquired or GaveUp; a Do that runs inside the hold of another one
// ([WithReentrancy]) has no events. Every hold that is unlocked or handed over ends with Released. Lost comes before Released,
// if it returns within a node timeout. A lease may be lost at once, so Lost may be called before Acquired has returned.
type Trace struct {
	Waiting  func(Event) // a call queues behind others of this process
	Attempt  func(Event) // a try has failed; Err says why
	Acquired func(Event) // a lock was acquired, or taken over
	GaveUp   func(Event) // a call has ended without the lock; Err says why
	Renewed  func(Event) // a renewal or Extend has succeeded, or failed with Err; one that finds a loss is reported by Lost alone
	Released func(Event) // a lock was unlocked, or handed over; Err if that failed
	Lost     func(Event) // a lease was lost; Err says why
}

// An Event is what the functions of a [Trace] get. Key, Kind and Owner are always set. Fence is set together with Lease, if
// the lock has [WithFencing]. Other fields are set where the table has a mark, and otherwise zero:
//
//	          Context  Lease  Attempt  Wait  Held  Until  Err
//	Waiting   x
//	Attempt   x               x        x                  x
//	Acquired  x        x      x        x           x
//	GaveUp    x               x        x                  x
//	Renewed            x                     x     x      if it failed
//	Released           x                     x            if it failed
//	Lost               x                     x            x
type Event struct {
	Context context.Context // of the call
	Key     string
	Kind    string // mutex, semaphore, reader or writer
	Owner   string // see [WithOwner]
	Lease   *Lease // the hold
	Fence   int64
	Attempt int           // number of tries so far
	Wait    time.Duration // time since the call
	Held    time.Duration // age of the hold
	Until   time.Time     // end of the validity
	Err     error
}

// Observe calls the functions of t for all locks of the Client from now on, until stop is called. It is for metrics and other
// code that is added to an existing Client. A lock with [WithTrace] calls both Traces. An Event that is under way when stop is
// called may still be reported after stop returns.
func (c *Client) Observe(t *Trace) (stop func()) {
	must(t != nil, "Observe needs a Trace, and got nil")
	own := *t // a copy, for stop to remove: t may be observing already
	c.observers.change(&own, nil)
	return func() { c.observers.change(nil, &own) }
}

// observers are the Traces of a Client. To read them costs an operation one atomic load.
type observers struct {
	mu  sync.Mutex // held while they are changed
	all atomic.Pointer[[]*Trace]
}

// change adds one Trace and removes another. Either may be nil.
func (o *observers) change(add, remove *Trace) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(*o.all.Load()), func(t *Trace) bool { return t == remove })
	if add != nil {
		all = append(all, add)
	}
	o.all.Store(&all)
}

// traced reports whether a Trace observes o. Callers on frequent paths ask this before they make an Event.
func (o *object) traced() bool {
	return o.config.trace != nil || len(*o.client.observers.all.Load()) > 0
}

// emit calls the function of every Trace of o that on selects.
func (o *object) emit(on func(*Trace) func(Event), e Event) {
	if !o.traced() {
		return
	}
	e.Key, e.Kind, e.Owner = o.key, o.config.terms.Kind.Name, o.config.terms.Owner
	if l := e.Lease; l != nil {
		e.Fence = l.Fence()
		if l.reads() {
			e.Kind = server.Reader.Name
		}
	}
	call := func(t *Trace) {
		if f := on(t); f != nil {
			f(e)
		}
	}
	if t := o.config.trace; t != nil {
		call(t)
	}
	for _, t := range *o.client.observers.all.Load() {
		call(t)
	}
}

// An observer passes what the engine reports about a call and its hold to the Traces, or to the log.
type observer Lease

func (o *observer) Waiting(ctx context.Context) {
	o.of.emit(func(t *Trace) func(Event) { return t.Waiting }, Event{Context: ctx})
}

func (o *observer) Tried(ctx context.Context, tries int, wait time.Duration, f *quorum.Failure) {
	if o.of.traced() {
		o.of.emit(func(t *Trace) func(Event) { return t.Attempt },
			Event{Context: ctx, Attempt: tries, Wait: wait, Err: o.of.toError(ctx, f)})
	}
}

// Unavailable logs why a call goes on waiting, at most once a second for each key.
func (o *observer) Unavailable(f *quorum.Failure) {
	l, warned := o.of, &o.of.client.warned
	if _, found := warned.LoadOrStore(l.key, nil); !found {
		time.AfterFunc(time.Second, func() { warned.Delete(l.key) })
		l.Logger().Warn("redimutex: can't lock yet", "key", l.key, "err", l.serversError(f))
	}
}

func (o *observer) Renewed(f *quorum.Failure) {
	if !o.of.traced() {
		return
	}
	e := Event{Lease: (*Lease)(o), Held: time.Since(o.hold.Began()), Until: o.hold.Until()}
	if f != nil {
		e.Err = o.of.serversError(f)
	}
	o.of.emit(func(t *Trace) func(Event) { return t.Renewed }, e)
}

func (o *observer) Lost(r keepalive.Reason) {
	l := (*Lease)(o)
	if reads := l.of.reads; reads != nil {
		reads.lose(l)
	}
	l.of.emit(func(t *Trace) func(Event) { return t.Lost }, Event{Lease: l, Held: time.Since(l.hold.Began()), Err: l.reason(r)})
}

func (o *observer) LostIdle(r keepalive.Reason) {
	l := (*Lease)(o)
	l.of.Logger().Warn("redimutex: a lock that was kept for the next hold is lost, perhaps since before the last Unlock",
		"key", l.of.key, "err", l.reason(r))
}
