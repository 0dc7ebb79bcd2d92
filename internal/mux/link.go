package mux

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A link is one shared connection, from the dial to the end. One goroutine writes to it and one
// reads; nothing that they do waits for a caller.
type link struct {
	pool  *Pool
	slot  *slot
	conn  redis.Conn
	born  time.Time
	calls *sync.Pool
	wake  chan struct{} // for the writer when it sleeps
	once  sync.Once     // closes conn

	mu      sync.Mutex
	err     error   // not nil: nothing more is taken in
	retired bool    // it ends when all is answered
	queue   []*call // to be written
	flying  flight  // written, or about to be, and not answered
	sent    uint64  // how many of those the writer is done with
	landed  uint64  // how many are answered
	asleep  bool    // the writer

	watch
}

const (
	// enough is a batch that is worth a packet.
	enough = 64
	// minLife keeps a server that is a replica for good from being connected to again and again.
	minLife = time.Second
	// maxFarewell bounds the writing of undos before the end.
	maxFarewell = 50 * time.Millisecond
)

var errAged = errors.New("it was as old as its pool lets connections be")

func newLink(p *Pool, s *slot, conn redis.Conn) *link {
	return &link{pool: p, slot: s, conn: conn, born: time.Now(), calls: new(sync.Pool), wake: make(chan struct{}, 1)}
}

// start starts the goroutines. The caller holds Pool.mu, so that Close either sees the link or keeps
// it from starting.
func (l *link) start(run func(func())) {
	run(l.write)
	run(l.read)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arm(time.Now().Add(maxIdle))
}

// aged reports whether the link is to be used for nothing new.
func (l *link) aged() bool {
	d := l.pool.source.Lifetime
	return d > 0 && time.Since(l.born) >= d
}

// retire has the link end when what is under way is answered.
func (l *link) retire() {
	l.pool.lost(l, nil)
	l.mu.Lock()
	l.retired = true
	idle := l.idle()
	l.mu.Unlock()
	if idle {
		l.fail(errAged)
	}
}

// idle reports whether nothing is under way. The caller holds l.mu.
func (l *link) idle() bool { return len(l.flying.all()) == 0 && len(l.queue) == 0 }

// put hands calls over to the writer. If the link is broken, they are not.
func (l *link) put(calls ...*call) error {
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return l.err
	}
	l.queue = append(l.queue, calls...)
	l.used = true
	for _, c := range calls {
		l.arm(c.deadline)
	}
	asleep := l.asleep
	l.asleep = false
	l.mu.Unlock()
	if asleep {
		l.rouse()
	}
	return nil
}

// rouse wakes the writer, or keeps it from falling asleep once.
func (l *link) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// write writes what is queued, and what has been queued meanwhile, before it has that sent.
func (l *link) write() {
	defer l.close()
	var batch []*call
	for {
		var ok bool
		if batch, ok = l.take(batch); !ok {
			return
		}
		for len(batch) > 0 {
			for _, c := range batch {
				if err := l.conn.Send(c.name, c.args...); err != nil {
					l.fail(err)
					return
				}
			}
			batch = l.more(batch)
		}
		if err := l.conn.Flush(); err != nil {
			l.fail(err)
			return
		}
	}
}

// take waits until something is queued. It reports false when the link has ended, and its undos are written.
func (l *link) take(last []*call) (batch []*call, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && l.err == nil {
		l.asleep = true
		l.mu.Unlock()
		<-l.wake
		l.mu.Lock()
		l.gather()
	}
	batch = l.launch(last)
	return batch, l.err == nil || len(batch) > 0
}

// gather lets others run as long as they have something to send as well. Sending is what costs, far more
// than this does, and one packet serves them all. The caller holds l.mu.
func (l *link) gather() {
	for n := -1; n < len(l.queue) && len(l.queue) < enough; {
		n = len(l.queue)
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
}

func (l *link) more(last []*call) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent += uint64(len(last))
	return l.launch(last)
}

// launch moves the queue to the flight, before anything of it is written: the reply may be there
// before the writer is back. The caller holds l.mu and gives the last batch for the next queue.
func (l *link) launch(last []*call) []*call {
	clear(last)
	batch := l.queue
	l.queue = last[:0]
	for _, c := range batch {
		l.flying.push(c)
	}
	return batch
}

// read hands the replies out.
func (l *link) read() {
	for {
		reply, err := l.receive()
		if fatal(err) {
			l.fail(err)
			return
		}
		l.mu.Lock()
		c := l.flying.pop()
		if c == nil {
			l.mu.Unlock()
			// A server that has too many clients says so, and hangs up.
			l.fail(fmt.Errorf("unexpected reply: %v %v", reply, err))
			return
		}
		l.landed++
		again := l.landed <= l.sent // else the server spoke first, as it does with too many clients, and c is being written
		over := c.over
		c.over = true
		last := l.retired && l.idle()
		l.mu.Unlock()
		if !over { // else its caller may be on the way to reading that it was late, so it can't be used again
			c.reply, c.err, c.again = reply, err, again
			c.done <- struct{}{}
		}
		if last {
			l.fail(errAged)
			return
		}
		if err != nil && l.demoted(err) {
			l.fail(err)
			return
		}
	}
}

// receive waits for the next reply for as long as it takes: a connection may be idle for longer than the timeout that
// it was dialled with, and the watch knows what is overdue.
func (l *link) receive() (any, error) {
	if c, ok := l.conn.(redis.ConnWithTimeout); ok {
		return c.ReceiveWithTimeout(0)
	}
	return l.conn.Receive()
}

// demoted reports whether the server has become a replica. The pool may know the new primary, but only
// a new connection gets there.
func (l *link) demoted(err error) bool {
	return strings.Contains(err.Error(), "READONLY ") && time.Since(l.born) > minLife
}

// abandon ends the interest in a call. It reports false if the outcome is there, or will be in no time.
func (l *link) abandon(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.over {
		return false
	}
	c.over = true
	return true
}

// cut is abandon for a call that is to have no effect: it is not written any more, or its undo is.
func (l *link) cut(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.over {
		return false
	}
	c.over = true
	if i := slices.Index(l.queue, c); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		return true
	}
	if l.err == nil && c.undo != nil {
		l.undo(c)
		if l.asleep {
			l.asleep = false
			l.rouse()
		}
	}
	return true
}

// undo queues what takes c back. The caller holds l.mu.
func (l *link) undo(c *call) {
	undo := l.newCall(c.undo[0].(string), c.undo[1:])
	undo.over, undo.deadline = true, time.Now().Add(maxWait) // no caller waits for it
	c.undo = nil                                             // which belongs to a caller that goes on
	l.queue = append(l.queue, undo)
}

// broken returns why the link can't be used, or nil.
func (l *link) broken() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
