// Package mux carries the commands of one Client over a few connections to one Redis server. They are written as they
// come, many in one packet when many come at once, and the replies come back in the same order. It carries the library's
// own commands and no others: a command that Redis does not answer would shift the replies of all.
package mux

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

// A Pool hands out any number of connections that all are the same few. It connects when it is
// first used, and again when a connection was lost, or is as old as its pool lets it be, and is needed.
type Pool struct {
	source *conn.Source
	limit  time.Duration // of one dial
	slots  []slot
	turn   atomic.Uint64 // of the slots, to spread the load

	ctx    context.Context // ends the dialling
	cancel context.CancelFunc
	links  sync.WaitGroup // the goroutines of all links

	mu      sync.Mutex
	closed  bool
	changed chan struct{} // closed when a dial has ended; nil: no caller waits for that
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
	minDial   = time.Second
	maxDial   = 5 * time.Second
	minRedial = 10 * time.Millisecond
	maxRedial = 500 * time.Millisecond
)

var errClosed = errors.New("the Client is closed, and its connections with it")

// New returns a Pool that shares n connections which it dials through source. A dial is given up after two node timeouts,
// or a second if that is more. It does not connect.
func New(source *conn.Source, n int, nodeTimeout time.Duration) *Pool {
	p := &Pool{source: source, limit: min(max(2*nodeTimeout, minDial), maxDial), slots: make([]slot, n)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Punctual marks that whatever is asked of this Pool and of its connections with a deadline ends at that deadline.
func (p *Pool) Punctual() {}

// Shares is where the shared connections come from.
func (p *Pool) Shares() *conn.Source { return p.source }

// Get is for conn.Pool, whose users prefer GetContext.
func (p *Pool) Get() redis.Conn {
	ctx, cancel := context.WithTimeout(p.ctx, p.limit)
	defer cancel()
	c, err := p.GetContext(ctx)
	if err != nil {
		return &Conn{link: &link{err: err, calls: new(sync.Pool)}}
	}
	return c
}

// GetContext returns a connection that is used as if it belonged to the caller alone. It waits only
// while none of the shared connections is up; while none can be had, the reason is returned at once,
// and the next dial is tried a little later. After Close each caller gets one of its own.
func (p *Pool) GetContext(ctx context.Context) (redis.Conn, error) {
	l := p.pick()
	for l == nil {
		var err error
		if l, err = p.await(ctx); errors.Is(err, errClosed) {
			return p.alone(ctx)
		} else if err != nil {
			return nil, err
		}
	}
	return &Conn{link: l}, nil
}

// alone returns a connection that ends with the use of it.
func (p *Pool) alone(ctx context.Context) (redis.Conn, error) {
	c, err := p.source.Dial(ctx)
	if err != nil {
		return nil, err
	}
	l := newLink(p, new(slot), c)
	l.start(func(f func()) { go f() })
	return &Conn{link: l, alone: true}, nil
}

// pick returns the next connection that is up, else nil. It has missing ones dialled.
func (p *Pool) pick() *link {
	first := p.turn.Add(1) % uint64(len(p.slots))
	for i := range p.slots {
		s := &p.slots[(int(first)+i)%len(p.slots)]
		l := s.link.Load()
		if l != nil && !l.aged() {
			return l
		}
		if l != nil {
			l.retire()
		}
		p.mu.Lock()
		p.redial(s)
		p.mu.Unlock()
	}
	return nil
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
	ctx, cancel := context.WithTimeout(p.ctx, p.limit)
	defer cancel()
	c, err := p.source.Dial(ctx)
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
		c.Close()
	default:
		s.failure, s.wait = nil, 0
		// A connection that breaks at once is not dialled again at once.
		s.retry = time.Now().Add(minRedial)
		l := newLink(p, s, c)
		s.link.Store(l)
		l.start(p.links.Go)
	}
}

// lost notes that a link is not used any more, for a reason that is an error or nil.
func (p *Pool) lost(l *link, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.slot.link.CompareAndSwap(l, nil) && err != nil {
		l.slot.failure = err
	}
}

// Close fails what is under way, closes the shared connections and waits for their goroutines, for d at most.
func (p *Pool) Close(d time.Duration) {
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
		go l.fail(errClosed) // to close a connection may take as long as the process that has made it likes
	}
	ended := make(chan struct{})
	go func() {
		p.links.Wait()
		close(ended)
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}
