// Package mux carries the commands of one Client over a few connections to one Redis server. They are written as they
// come, many in one packet when many come at once, and the replies come back in the same order. It carries the library's
// own commands and no others: a command that Redis does not answer would shift the replies of all.
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

// A Pool hands out any number of connections that all are the same few. It connects when it is
// first used, and again when a connection was lost, or is as old as its pool lets it be, and is needed.
type Pool struct {
	conn.Pool // whose connections are shared by GetContext, and not by Get

	source *conn.Source
	bound  time.Duration // of one reply: the node timeout
	calls  sync.Pool     // of *call

	ctx    context.Context // ends with Close, and the dialling and the shared connections with it
	cancel context.CancelFunc
	links  underway.Count // the goroutines of all links

	// When the last command was sent that had no answer. The connections are retired that have answered none sent since:
	// where a firewall has forgotten one of them, it has forgotten the others that were idle.
	silent atomic.Pointer[time.Time]

	mu      sync.Mutex
	slots   []slot
	turn    int           // of the slots, to spread the load
	changed chan struct{} // closed when a dial has ended, and replaced
}

// A slot is the place of one shared connection.
type slot struct {
	link     *link // nil: none yet; it may have ended
	dialling bool
	failure  error         // of the last dial; nil: it was none
	hung     time.Duration // of the dials in a row that were given up
	took     time.Duration // of the last one that was not
	retry    time.Time     // no dial before that
	wait     time.Duration // between the last dial and the next, at least
}

const (
	maxDial   = 5 * time.Second
	minRedial = 10 * time.Millisecond
	maxRedial = 500 * time.Millisecond
)

// New returns a Pool that shares n connections which it dials through source. A dial is given up after two node timeouts; or,
// where dials in a row have hung for longer than ten, after a fifth of that time; or after twice what the last good one has
// taken; five seconds at most. It does not connect.
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

// Source is what a server knows of the Pool: whatever is asked of it and of its connections with a deadline ends at that
// deadline. A subscription has a connection of its own.
func (p *Pool) Source() *conn.Source {
	return &conn.Source{Pool: p, Punctual: true, Redials: len(p.slots), Listen: p.source.Listen, Scattered: p.source.Scattered}
}

// GetContext returns a connection that is used as if it belonged to the caller alone. It waits only while none of the
// shared connections is up and one is being dialled. While none can be had, the reason is returned at once, and the next
// dial is tried a little later. After Close each caller gets a connection of its own.
func (p *Pool) GetContext(ctx context.Context) (redis.Conn, error) {
	for {
		l, changed, err := p.pick()
		switch {
		case l != nil:
			return l, nil
		case changed != nil:
			var late <-chan time.Time
			if deadline, bounded := ctx.Deadline(); bounded { // Done need not be closed then
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

// pick returns the next connection that is up. It has missing ones dialled. If none is up, it returns a channel that is
// closed when a dial has ended, or why none is to be had.
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
		// A dial that has failed is not repeated before its time; nor after a connection that has broken at once.
		if wait := time.Until(s.retry); !s.dialling && (s.failure == nil || wait <= 0) {
			if wait < -s.wait { // the last connection has lived for a while, or none was needed
				s.wait = 0
			}
			s.dialling = true
			time.AfterFunc(wait, func() { p.dial(s) })
		}
		if s.dialling {
			changed = p.changed
		}
		failure = cmp.Or(s.failure, failure) // any of them: they are about the same server
	}
	return nil, changed, failure
}

// dial connects s, on a goroutine of its own: it may take longer than those who need it can wait.
func (p *Pool) dial(s *slot) {
	p.links.Enter() // Close waits for it, as for the link that it makes
	defer p.links.Leave()
	limit := min(max(2*p.bound, s.hung/5, 2*s.took), maxDial) // it may be a long way; and what hangs may never end
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	began := time.Now()
	c, err := p.source.Dial(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.dialling, s.failure = false, err
	if s.hung += time.Since(began); conn.Ended(ctx) == nil {
		s.hung = 0
	}
	close(p.changed)
	p.changed = make(chan struct{})
	if err == nil {
		s.took = time.Since(began)
		s.link = newLink(p.ctx, p, c, false)
	}
	// Also after a success: a server that has too many clients hangs up at once. A renewal is repeated after a node timeout.
	s.wait = min(max(2*s.wait, minRedial), maxRedial, p.bound)
	s.retry = time.Now().Add(s.wait)
}

// Close fails what is under way, closes the shared connections and waits for their goroutines, for d at most.
func (p *Pool) Close(d time.Duration) {
	p.cancel()
	p.links.Wait(d)
}
