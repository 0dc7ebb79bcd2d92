package redimutex

import (
	"context"
	"slices"
	"sync"

	"github.com/redimutex/redimutex/internal/server"
)

// A doing is a Do that runs. The ctx of its f leads to it: for calls of the same key inside f, and for [LeaseFrom].
type doing struct {
	lease  *Lease
	guests *guests
	outer  *doing // the Do around this one, of whatever key
}

// doingKey finds the innermost doing of a ctx.
type doingKey struct{}

// innermost returns the doing whose f got ctx, or nil.
func innermost(ctx context.Context) *doing {
	d, _ := ctx.Value(doingKey{}).(*doing)
	return d
}

// LeaseFrom returns the hold of the innermost Do, of any kind of lock, that ctx comes from; nil if there is none. A
// Do that runs inside the hold of another one ([WithReentrancy]) has that hold. After the Do has returned, it is a
// Lease that has ended.
func LeaseFrom(ctx context.Context) *Lease {
	if d := innermost(ctx); d != nil {
		return d.lease
	}
	return nil
}

// around returns the Do of the same Client that has given ctx and still holds a key of o, or nil. The Dos of a Semaphore
// have a permit each, and may nest.
func (o *object) around(ctx context.Context) *doing {
	for d := innermost(ctx); d != nil; d = d.outer {
		if d.lease.of.client == o.client && d.lease.of.shares(o) && !d.lease.claimed.Load() {
			return d
		}
	}
	return nil
}

// shares reports whether two objects exclude each other by one of their keys.
func (o *object) shares(other *object) bool {
	if o.config.terms.Kind == server.Semaphore && other.config.terms.Kind == server.Semaphore {
		return false
	}
	return o.has(other.key) || slices.ContainsFunc(other.more, o.has)
}

// has reports whether key is one of those of o.
func (o *object) has(key string) bool { return o.key == key || slices.Contains(o.more, key) }

// covers reports whether o has all keys of other, which can then run inside a hold of o.
func (o *object) covers(other *object) bool {
	return o.has(other.key) && !slices.ContainsFunc(other.more, func(k string) bool { return !o.has(k) })
}

// context returns a ctx that leads to d.
func (d *doing) context(parent context.Context) context.Context {
	return context.WithValue(parent, doingKey{}, d)
}

// run calls the f of a Do inside the hold of d.
func (d *doing) run(ctx context.Context, f func(context.Context) error) error {
	if err := d.lease.Err(); err != nil { // ctx may have been detached from that
		return err
	}
	if ctx.Err() != nil {
		return endedBy(ctx, d.lease.of.key, nil)
	}
	if between := innermost(ctx); between != d { // a Do of another key
		inner := &doing{lease: d.lease, guests: d.guests, outer: between}
		ctx = inner.context(ctx)
	}
	return f(ctx)
}

// upgrades reports whether o would make a writer of the reader that outer is.
func (o *object) upgrades(outer *doing) bool {
	return outer.lease.reads() && o.config.terms.Kind != server.Reader
}

// guests are the calls of Do that run inside the hold of another one.
type guests struct {
	mu     sync.Mutex
	cond   sync.Cond
	inside int
	over   bool // the outermost has returned, and no call enters any more
}

func newGuests() *guests {
	g := new(guests)
	g.cond.L = &g.mu
	return g
}

// enter reports whether a call may run inside the hold; then it has to leave.
func (g *guests) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		g.inside++
	}
	return !g.over
}

func (g *guests) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.cond.Broadcast()
}

// close waits until all that run inside have returned.
func (g *guests) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.inside > 0 {
		g.cond.Wait()
	}
	g.over = true
}
