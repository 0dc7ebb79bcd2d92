// Package mux lets many goroutines share a few connections to one Redis server. Their commands are
// written as they come, many in one packet when many come at once, and the replies are handed out in
// the same order.
package mux

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Source is where the shared connections come from.
type Source interface{ Get() redis.Conn }

// A Pool hands out any number of connections that all are the same few. It connects when it is
// first used, and again when a connection was lost and is needed.
type Pool struct {
	source Source
	slots  []slot
	turn   atomic.Uint32 // of the slots, to spread the load

	ctx    context.Context // ends the dialling
	cancel context.CancelFunc
	links  sync.WaitGroup // the goroutines of all links

	mu      sync.Mutex
	closed  bool
	changed chan struct{} // closed when a dial has ended; nil: nobody waits for that
}

// A slot is the place of one shared connection.
type slot struct {
	link atomic.Pointer[link] // nil: not connected

	// Protected by Pool.mu.
	dialling bool
	failure  error         // of the last dial
	retry    time.Time     // no dial before that
	wait     time.Duration // after the next failure
}

const (
	dialTimeout = 5 * time.Second
	minRedial   = 10 * time.Millisecond
	maxRedial   = 500 * time.Millisecond
)

var errClosed = errors.New("the multiplexed pool is closed")

// New returns a Pool that shares n connections of source. It does not connect.
func New(source Source, n int) *Pool {
	p := &Pool{source: source, slots: make([]slot, n)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Punctual tells the rest of the library that whatever is asked of this Pool and of its connections
// with a deadline ends at that deadline.
func (p *Pool) Punctual() {}

// Get is GetContext for callers without a context. A connection that could not be had reports why by
// Err, and by whatever else is called.
func (p *Pool) Get() redis.Conn {
	ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
	defer cancel()
	c, err := p.GetContext(ctx)
	if err != nil {
		return newBrokenConn(err)
	}
	return c
}

// GetContext returns a connection that is used as if it belonged to the caller alone. It waits only
// while none of the shared connections is up; while none can be had, the reason is returned at once,
// and the next dial is tried a little later.
func (p *Pool) GetContext(ctx context.Context) (redis.Conn, error) {
	l := p.pick()
	for l == nil {
		var err error
		if l, err = p.await(ctx); err != nil {
			return nil, err
		}
	}
	return &Conn{link: l}, nil
}

// pick returns the next connection that is up and answers, else one that is up, else nil. It has
// missing ones dialled.
func (p *Pool) pick() *link {
	var silent *link
	first := p.turn.Add(1)
	for i := range p.slots {
		s := &p.slots[(int(first)+i)%len(p.slots)]
		l := s.link.Load()
		switch {
		case l == nil:
			p.mu.Lock()
			p.redial(s)
			p.mu.Unlock()
		case l.silent.Load():
			silent = l
		default:
			return l
		}
	}
	return silent
}

// await waits until a dial has ended, and returns what is up then: nil if it has to be called again.
func (p *Pool) await(ctx context.Context) (*link, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	dialling := false
	var failure error
	for i := range p.slots {
		s := &p.slots[i]
		if l := s.link.Load(); l != nil {
			p.mu.Unlock()
			return l, nil
		}
		p.redial(s)
		dialling = dialling || s.dialling
		if s.failure != nil {
			failure = s.failure // any of them: they are about the same server
		}
	}
	if !dialling {
		p.mu.Unlock()
		return nil, failure
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	changed := p.changed
	p.mu.Unlock()
	select {
	case <-changed:
		return nil, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("still connecting: %w", ctx.Err())
	}
}

// redial has s connected by a goroutine of its own, because dialling may take longer than those who
// need it can wait. The caller holds p.mu.
func (p *Pool) redial(s *slot) {
	if p.closed || s.dialling || s.link.Load() != nil || time.Now().Before(s.retry) {
		return
	}
	s.dialling = true
	go p.dial(s)
}

func (p *Pool) dial(s *slot) {
	ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
	defer cancel()
	conn, err := connect(ctx, p.source)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.dialling = false
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	switch {
	case err != nil:
		s.failure, s.wait = err, min(max(2*s.wait, minRedial), maxRedial)
		s.retry = time.Now().Add(s.wait)
	case p.closed:
		conn.Close()
	default:
		s.failure, s.wait = nil, 0
		// A connection that breaks at once is not dialled again at once.
		s.retry = time.Now().Add(minRedial)
		l := newLink(p, s, conn)
		s.link.Store(l)
		l.start()
	}
}

// lost notes that a link has ended.
func (p *Pool) lost(l *link, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.slot.failure = err
	l.slot.link.Store(nil)
}

// Dialler returns how to make a connection that is not shared, for what would hold up others, and
// whether it is one that the source lends. The caller closes it.
func (p *Pool) Dialler() (dial func(context.Context) (redis.Conn, error), lent bool) {
	return dialler(p.source)
}

// Close fails what is under way, closes the shared connections and waits for their goroutines.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.cancel()
	var up []*link
	for i := range p.slots {
		if l := p.slots[i].link.Load(); l != nil {
			up = append(up, l)
		}
	}
	p.mu.Unlock()
	for _, l := range up {
		l.fail(errClosed)
	}
	p.links.Wait()
	return nil
}
