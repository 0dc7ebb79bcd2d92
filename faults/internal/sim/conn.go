package sim

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A conn is a connection of redigo over a simulated link. As with a real connection, messages arrive in the order in which
// they were sent, and the server executes them even if the client has gone away meanwhile.
type conn struct {
	link   *link
	server *server
	boot   int           // server.boots at the dial: a crash of the server breaks the conn
	limit  time.Duration // for reads whose caller gives no limit

	mu      sync.Mutex // never locked before server.mu
	outbox  [][]string
	inbox   []item
	wake    chan struct{}
	pending int           // replies that the server still owes
	dead    bool          // no more messages reach the server; protected by server.mu
	kind    uint64        // of the last message
	fresh   bool          // nothing was sent yet
	astray  bool          // it is connected to a replica
	sent    time.Duration // when the last message arrives at the server
	heard   time.Duration // when the last reply arrives at the client
	err     error
}

type item struct {
	at    time.Duration
	value any
	err   error
}

var (
	errReset   = errors.New("connection reset by peer")
	errRefused = errors.New("connection refused")
	errClosed  = errors.New("use of closed network connection")
)

// dial makes a connection. The delay of the first message includes the time for the dial. If dial itself took that time, two
// dials at the same moment could not be told apart, and what happens next would depend on which of them is first.
func dial(l *link, limit time.Duration) (*conn, error) {
	s := l.world.servers[l.server]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errRefused
	}
	c := &conn{link: l, server: s, boot: s.boots, limit: limit, wake: make(chan struct{}, 1), fresh: true}
	s.conns = append(s.conns, c)
	return c, nil
}

func (c *conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail breaks the connection.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.signal()
}

// last returns the kind of the last message.
func (c *conn) last() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kind
}

// signal wakes the goroutine that reads. The caller holds c.mu.
func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Close ends the connection for the client at once. The server learns of it later.
func (c *conn) Close() error {
	c.fail(errClosed)
	w, s := c.link.world, c.server
	w.at(w.now()+c.link.delay(c.link.dice(c.last()+closing)), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hangUp(c)
		s.conns = slices.DeleteFunc(slices.Clone(s.conns), func(other *conn) bool { return other == c })
	})
	return nil
}

// Send puts a command into the buffer.
func (c *conn) Send(command string, args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	words := make([]string, 1, 1+len(args))
	words[0] = command
	for _, a := range args {
		words = append(words, word(a))
	}
	c.outbox = append(c.outbox, words)
	c.pending++
	return nil
}

// Flush sends the commands in the buffer as one message.
func (c *conn) Flush() error {
	w := c.link.world
	c.mu.Lock()
	if c.err != nil || len(c.outbox) == 0 {
		defer c.mu.Unlock()
		return c.err
	}
	batch := c.outbox
	c.outbox = nil
	c.kind = 0
	for _, args := range batch {
		c.kind += kindOf(args)
	}
	dice := c.link.dice(c.kind)
	arrives := w.now() + c.link.delay(dice)
	if c.fresh {
		arrives += 2 * c.link.delay(dice)
		c.fresh = false
	}
	arrives = max(arrives, c.sent+1)
	broken := dice.Float64() < w.Weather.Break
	lostBefore := broken && dice.IntN(2) == 0
	c.sent = arrives
	c.mu.Unlock()
	if broken && !lostBefore && c.server.hangs(arrives) { // the client learns of the break before the server reads the message
		c.breakSoon()
	}
	for _, args := range batch {
		w.judge.sent(args)
	}
	w.at(arrives, func() { c.arrive(batch, broken, lostBefore) })
	return nil
}

// arrive runs a message on the server.
func (c *conn) arrive(batch [][]string, broken, lostBefore bool) {
	w, s := c.link.world, c.server
	now := w.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now < s.hungUntil {
		s.backlog = append(s.backlog, unread{c, func() { c.arrive(batch, broken, lostBefore) }})
		return
	}
	if c.dead || s.down || c.boot != s.boots || lostBefore {
		c.dead = true
		w.note("conn", c.link.client, s.number, "message lost")
		c.breakSoon()
		return
	}
	for _, args := range batch {
		w.judge.executed(args)
		reply := s.execute(c, args)
		w.note("server", s.number, c.link.client, summary(args, reply))
		var err error
		if e, ok := reply.(redis.Error); ok {
			reply, err = nil, e
		}
		if !broken {
			c.deliver(reply, err)
		}
	}
	if broken {
		w.note("conn", c.link.client, s.number, "reply lost")
		c.breakSoon()
	}
}
