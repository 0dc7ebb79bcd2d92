package mux

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

// A link is one shared connection, from the dial to the end. One goroutine writes to it and one
// reads; nothing that they do waits for a caller.
//
//	open ─ too old, or another was silent → retired ─ all is answered → ended
//	   any ─ broken, a reply is overdue, Close → ended
type link struct {
	pool  *Pool
	conn  redis.Conn
	born  time.Time
	alone bool   // it ends with its first use
	close func() // closes conn, which ends the goroutines

	mu      sync.Mutex
	work    sync.Cond // for the writer: something is queued, or the link has ended
	err     error     // not nil: it has ended, and takes nothing more in
	retired error     // not nil: why it ends when nothing is under way
	heard   time.Time // when the last reply came; before the first, when it was dialled
	queue   []*call   // to be written
	flying  []*call   // written, or about to be; the oldest first
	landed  int       // how many of flying are answered
}

const (
	// enough is a batch that is worth a packet.
	enough = 64
	// minLife keeps a server that is a replica for good from being connected to again and again.
	minLife = time.Second
	// maxIdle is the time after which a connection is closed on which nothing is heard, as no caller uses it. It is less
	// than what some servers and firewalls allow.
	maxIdle = 2 * time.Minute
	// patience is how much later than after the node timeout a reply may come.
	patience = 25 * time.Millisecond
	// maxFarewell bounds the writing of undos before the end.
	maxFarewell = 50 * time.Millisecond
)

var (
	errAged    = errors.New("it was as old as its pool lets connections be")
	errDoubted = errors.New("another one was silent")
	errSilent  = errors.New("the server does not answer")
)

// newLink starts a link, whose goroutines run runs.
func newLink(p *Pool, c redis.Conn, run func(func())) *link {
	now := time.Now()
	l := &link{pool: p, conn: c, born: now, heard: now, close: sync.OnceFunc(func() { c.Close() })}
	l.work.L = &l.mu
	run(l.write)
	run(l.read)
	return l
}

// do has c written, and waits for its outcome until ctx or the deadline of c ends.
func (l *link) do(ctx context.Context, c *call) error {
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return l.err
	}
	l.queue = append(l.queue, c)
	l.work.Signal()
	l.mu.Unlock()
	c.link, c.began = l, time.Now()
	c.timer.Reset(c.deadline.Sub(c.began))
	if ctx.Done() != nil { // a select takes longer
		select {
		case err := <-c.done:
			return err
		case <-ctx.Done():
			l.abandon(c, ctx.Err())
		}
	}
	return <-c.done
}

// abandon ends c without a reply. What is not written yet never is. Else its undo is written behind it, and the link ends
// if the reply is overdue.
func (l *link) abandon(c *call, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.over {
		return
	}
	if i := slices.Index(l.queue, c); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	} else {
		l.undo(c)
		l.expect(c)
	}
	c.tell(err)
}

// undo queues what takes c back. The caller holds l.mu.
func (l *link) undo(c *call) {
	if c.undo == nil {
		return
	}
	undo := &call{over: true}
	undo.add(c.undo[0].(string), c.undo[1:]...) //nolint:errcheck // never fails
	c.undo = nil                                // which belongs to a caller that goes on
	l.queue = append(l.queue, undo)
	l.work.Signal()
}

// expect has the link end if c, which no caller waits for any more, is not answered within the node timeout: the caller may
// have had less time.
func (l *link) expect(c *call) {
	time.AfterFunc(max(time.Until(c.began.Add(l.pool.bound)), time.Until(c.deadline))+patience, func() {
		l.mu.Lock()
		overdue := slices.Contains(l.flying[l.landed:], c)
		l.mu.Unlock()
		if overdue {
			l.pool.silent.Store(&c.began)
			l.end(errSilent)
		}
	})
}

// write writes what is queued. In the end it closes the connection, when the last undos are written.
func (l *link) write() {
	defer l.close()
	var b batch
	for l.launch(&b) {
		err := b.send(l.conn.Send)
		if err == nil {
			err = l.conn.Flush()
		}
		if err != nil {
			l.end(err)
			return
		}
	}
}

// launch waits until something is queued and moves it to the flight, before anything of it is written: the reply may be
// there before the writer is back. It reports false when the link has ended.
func (l *link) launch(b *batch) bool {
	b.reset()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && l.err == nil {
		l.work.Wait()
	}
	l.gather()
	for _, c := range l.queue {
		b.commands = append(b.commands, c.commands...)
		b.args = append(b.args, c.args...)
	}
	l.flying = append(slices.Delete(l.flying, 0, l.landed), l.queue...)
	l.landed = 0
	clear(l.queue)
	l.queue = l.queue[:0]
	return len(b.commands) > 0 || l.err == nil // all may have been abandoned while we gathered
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

// read hands the replies out.
func (l *link) read() {
	for {
		reply, err := conn.Receive(l.conn, maxIdle) // not the timeout that the connection was dialled with
		if err != nil {
			var refused redis.Error
			if errors.As(err, &refused) {
				reply, err = refused, nil
			}
		}
		if err == nil {
			err = l.land(reply)
		}
		if err != nil {
			l.end(err)
			return
		}
	}
}

// land gives a reply to the oldest call of the flight. It returns why the link has to end now, or nil.
func (l *link) land(reply any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.landed == len(l.flying) { // a server that has too many clients says so, and hangs up
		return fmt.Errorf("unexpected reply: %v", reply)
	}
	c := l.flying[l.landed]
	if c.replies = append(c.replies, reply); len(c.replies) < len(c.commands) {
		return nil
	}
	l.flying[l.landed] = nil
	l.landed++
	l.heard = time.Now()
	c.tell(nil)
	if l.idle() {
		return l.retired
	}
	return nil
}

// idle reports whether nothing is under way. The caller holds l.mu.
func (l *link) idle() bool { return l.landed == len(l.flying) && len(l.queue) == 0 }

// spent returns why the link is to be used for nothing new, or nil. One that is as old as its pool lets it be, or is in
// doubt, ends when what is under way is answered.
func (l *link) spent() (why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch d := l.pool.source.Lifetime; {
	case l.err != nil:
		return l.err
	case d > 0 && time.Since(l.born) >= d:
		why = errAged
	case l.heard.Before(*l.pool.silent.Load()):
		why = errDoubted
	default:
		return nil
	}
	l.retired = why
	if l.idle() {
		go l.end(why)
	}
	return why
}

// end ends the link. What is under way gets the error: whether the server has executed it is not known. Where the server
// is silent, the undo of each command that has one is written behind it first.
func (l *link) end(err error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	if l.err = err; err != errClosed { //nolint:errorlint // the very value
		l.err = fmt.Errorf("a shared connection has ended: %v", err) // not %w: it is not the answer to these calls
	}
	silent := err == errSilent //nolint:errorlint // same
	flying, unsent := l.flying[l.landed:], l.queue
	l.flying, l.landed, l.queue = nil, 0, nil
	for _, c := range unsent {
		if c.over && silent { // it is an undo
			l.queue = append(l.queue, c)
		}
		c.tell(l.err)
	}
	for _, c := range flying {
		told := l.err
		if silent && c.undo != nil {
			l.undo(c)
			told = conn.ErrTimeout // so that it is not sent again over another connection, behind its undo
		}
		c.tell(told)
	}
	l.work.Signal()
	l.mu.Unlock()
	farewell := time.Duration(0)
	if silent {
		farewell = maxFarewell
	}
	time.AfterFunc(farewell, l.close) // to close a connection may take as long as the process that has made it likes
}
