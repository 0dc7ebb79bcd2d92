// Package mux carries the commands of one Client over a few connections to one Redis server. Commands are written as they
// come, many in one packet when many come at once. The replies come back in the same order. It carries only this library's own
// commands: a command that Redis does not answer would shift the replies of all others.
package mux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/underway"
)

// A Pool hands out any number of connections that share a few real ones. It connects when a connection is needed: at the first
// use, and after one was lost or reached the lifetime that its pool sets.
type Pool struct {
	conn.Pool // Get returns its connections; GetContext returns shared ones

	source *conn.Source
	bound  time.Duration // how long a reply may take: the node timeout
	calls  sync.Pool     // of *call

	ctx    context.Context // ends with Close; all dials and shared connections end with it
	cancel context.CancelFunc
	links  underway.Count // the goroutines of all links

	// When the last unanswered command was sent. A connection is retired if it has answered nothing sent since: a firewall
	// that has forgotten one connection has also forgotten the others that were idle.
	silent atomic.Pointer[time.Time]

	mu      sync.Mutex
	slots   []slot
	turn    int           // index of the slot used last, to spread the load
	changed chan struct{} // closed when a dial has ended, and replaced
}

// A slot is the place of one shared connection.
type slot struct {
	link     *link // nil: none yet; not nil: it may have ended
	dialling bool
	failure  error         // of the last dial; nil: it succeeded
	hungFor  time.Duration // total time of the last dials that were all given up
	took     time.Duration // of the last successful dial
	retry    time.Time     // no dial before this time
	wait     time.Duration // minimum between the last dial and the next
}

const (
	maxDial   = 5 * time.Second
	minRedial = 10 * time.Millisecond
	maxRedial = 250 * time.Millisecond
)

// New returns a Pool that shares n connections, which it dials through source. It does not connect. A dial is given up after
// the longest of these times, but after five seconds at most: two node timeouts; a fifth of the time for which the dials
// before it have hung in a row; twice the time that the last successful dial took.
func New(source *conn.Source, n int, nodeTimeout time.Duration) *Pool {
	p := &Pool{
		Pool: source.Pool, source: source, bound: nodeTimeout,
		slots: make([]slot, n), changed: make(chan struct{}),
	}
	p.calls.New = func() any { return &call{done: make(chan error, 1)} }
	p.silent.Store(new(time.Time))
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Source is how a server sees the Pool: all that is asked of the Pool and its connections with a deadline ends at that
// deadline. A subscription has a connection of its own.
func (p *Pool) Source() *conn.Source {
	return &conn.Source{Pool: p, Punctual: true, Redials: len(p.slots), Listen: p.source.Listen, Scattered: p.source.Scattered}
}

// GetContext returns a connection that is used as if the caller alone had it. It waits only while none of the shared
// connections is up and one is being dialled. If no connection can be had, it returns the reason at once, and the next dial
// follows a little later. After Close each caller gets a connection of its own.
func (p *Pool) GetContext(ctx context.Context) (redis.Conn, error) {
	for {
		l, changed, err := p.pick()
		switch {
		case l != nil:
			return l, nil
		case changed != nil:
			var late <-chan time.Time
			if deadline, bounded := ctx.Deadline(); bounded { // Done need not be closed at the deadline
				late = time.After(time.Until(deadline))
			}
			select {
			case <-changed:
				continue
			case <-late:
			case <-ctx.Done():
			}
			return nil, fmt.Errorf("still connecting: %w", cmp.Or(ctx.Err(), context.DeadlineExceeded))
		case !errors.Is(err, errClosed):
			return nil, err
		}
		c, err := p.source.Dial(ctx)
		if err != nil {
			return nil, err
		}
		return newLink(context.Background(), p, c, true), nil
	}
}

// pick returns the next connection that is up, and starts dials for missing ones. If none is up, it returns a channel that is
// closed when a dial has ended, or the reason why no connection can be had.
func (p *Pool) pick() (up *link, changed <-chan struct{}, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil, nil, errClosed
	}
	for range p.slots {
		p.turn = (p.turn + 1) % len(p.slots)
		s := &p.slots[p.turn]
		if s.link != nil && s.link.open() {
			return s.link, nil, nil
		}
		// Neither a failed dial nor one whose connection broke at once is repeated before s.retry.
		if wait := time.Until(s.retry); !s.dialling && (s.failure == nil || wait <= 0) {
			if s.failure == nil && wait < -s.wait { // the last connection has lived for a while
				s.wait = 0
			}
			s.dialling = true
			time.AfterFunc(wait, func() { p.dial(s) })
		}
		if s.dialling {
			changed = p.changed
		}
		failure = cmp.Or(s.failure, failure) // of any slot: all are about the same server
	}
	return nil, changed, failure
}

// dial connects s. It has a goroutine of its own, because it may take longer than its callers can wait.
func (p *Pool) dial(s *slot) {
	p.links.Enter() // Close waits for this dial and for the link that it makes
	defer p.links.Leave()
	limit := min(max(2*p.bound, s.hungFor/5, 2*s.took), maxDial) // a far server takes long; a hanging one may never answer
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	began := time.Now()
	c, err := p.source.Dial(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.dialling, s.failure = false, err
	s.hungFor += time.Since(began)
	if conn.Ended(ctx) == nil {
		s.hungFor = 0
	}
	close(p.changed)
	p.changed = make(chan struct{})
	if err == nil {
		s.took = time.Since(began)
		s.link = newLink(p.ctx, p, c, false)
	}
	// Also after a success: a server that has too many clients hangs up at once. A call has time to wait for the next dial.
	s.wait = max(min(2*s.wait, maxRedial, p.bound/2), minRedial)
	s.retry = time.Now().Add(s.wait)
}

// Close fails the calls under way, closes the shared connections and waits for their goroutines, for d at most.
func (p *Pool) Close(d time.Duration) {
	p.cancel()
	p.links.Wait(d)
}
