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

// A link is one shared connection, from the dial to the end. One goroutine writes to it and one reads; nothing that they do
// waits for a caller.
//
//	open ─ too old, or another was silent → retired ─ all is answered → ended
//	   any ─ broken, a reply is overdue, Close → ended
type link struct {
	redis.ConnWithContext // nil: what is sent has to have a deadline

	pool  *Pool
	conn  redis.Conn
	born  time.Time
	alone bool   // it ends with its first use
	close func() // closes conn, which ends the goroutines

	mu      sync.Mutex
	work    sync.Cond // for the writer: something is to be written, or the link has ended
	err     error     // not nil: it has ended, and takes nothing more in
	retired bool      // it takes nothing more in, and ends when nothing is under way
	alive   time.Time // when the last command was sent that was answered; before the first, when it was dialled
	calls   []*call   // what is under way, the oldest first
	written int       // how many of calls are written, or about to be
	timer   *time.Timer
	armed   time.Time // when the timer fires; zero: it has fired
}

const (
	enough  = 64          // a batch that is worth a packet
	minLife = time.Second // keeps a server that is a replica for good from being connected to again and again
	// maxIdle is how long a connection stays open unused, and twice that at most: less than some servers and firewalls allow.
	maxIdle  = 2 * time.Minute
	patience = 25 * time.Millisecond // how much later than after the node timeout a reply may come
	// maxFarewell bounds the writing of undos before the end, and how much later than a command its undo may be answered.
	// Only a peer that takes nothing needs as long.
	maxFarewell = time.Second
)

var (
	errClosed  = errors.New("the Client is closed, and its connections with it")
	errRetired = errors.New("it was too old, or not used, or another one was silent")
	errSilent  = errors.New("the server does not answer")
	errDemoted = errors.New("the server has become a replica")
)

// newLink returns the link over c, which ends with ctx.
func newLink(ctx context.Context, p *Pool, c redis.Conn, alone bool) *link {
	now := time.Now()
	l := &link{pool: p, conn: c, born: now, alone: alone, alive: now, armed: now.Add(maxIdle)}
	ctx, cancel := context.WithCancel(ctx)
	l.close = sync.OnceFunc(func() { cancel(); conn.Close(c, false) })
	l.work.L = &l.mu
	l.timer = time.AfterFunc(maxIdle, l.look)
	context.AfterFunc(ctx, func() { l.end(errClosed); l.close() })
	p.links.Go(l.write)
	p.links.Go(l.read)
	return l
}

func (l *link) enqueue(c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.calls = append(l.calls, c)
	l.arm(c.due)
	l.work.Signal()
	return nil
}

// abandon has the caller of c leave for a reason, unless there is an outcome. What is not written yet never is. Else the undo
// of c is written behind it, and the link ends if the reply is overdue. The caller holds l.mu.
func (l *link) abandon(c *call, why error) {
	switch i := slices.Index(l.calls, c); {
	case i < 0:
	case i >= l.written:
		l.calls = slices.Delete(l.calls, i, i+1)
		l.endIfIdle()
	default:
		if c.undo != nil {
			l.calls = append(l.calls, c.takeBack())
			l.work.Signal()
		}
		c.due = c.overdue
		l.arm(c.due)
	}
	c.tell(why) // last: then the undo is the caller's again
}

// arm has the timer fire then, unless it fires before that anyhow: one timer for all calls. The caller holds l.mu.
func (l *link) arm(then time.Time) {
	if l.err == nil && (l.armed.IsZero() || then.Before(l.armed)) {
		l.armed = then
		l.timer.Reset(max(time.Until(then), time.Millisecond)) // it looks at all calls, of which there may be thousands
	}
}

// look has those callers leave whose time is over. It ends the link if a reply is overdue, or if nothing is sent for long.
func (l *link) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.armed = time.Time{}
	for _, c := range slices.Clone(l.calls) {
		switch {
		case now.Before(c.due):
			l.arm(c.due)
		case !c.told:
			l.abandon(c, conn.ErrTimeout)
		default:
			l.pool.silent.Store(&c.began)
			l.fail(errSilent)
			return
		}
	}
	if len(l.calls) == 0 && now.Sub(l.alive) >= maxIdle {
		l.fail(errRetired)
	}
	l.arm(now.Add(maxIdle))
}

// write writes what is queued. In the end it closes the connection, when the last undos are written.
func (l *link) write() {
	defer l.close()
	for batch, more := l.next(nil); more; batch, more = l.next(batch) {
		if err := send(l.conn, batch); err != nil {
			l.end(err)
			return
		}
	}
}

func send(to redis.Conn, batch []*call) (err error) {
	defer conn.Caught(&err)
	for _, c := range batch {
		args := c.args
		for _, command := range c.commands {
			if err = to.Send(command.name, args[:command.args]...); err != nil {
				return err
			}
			args = args[command.args:]
		}
	}
	return to.Flush()
}

// next waits until something is queued, and returns it, in the place of the last batch. It counts as written from now on:
// the reply may be there before the writer is back. It reports false when the link has ended and nothing is left to write.
func (l *link) next(batch []*call) ([]*call, bool) {
	clear(batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.calls) == l.written && l.err == nil {
		l.work.Wait()
	}
	// Others run as long as they have something to send as well. Sending is what costs, far more than this does, and one
	// packet serves them all.
	for n := -1; n < len(l.calls)-l.written && len(l.calls)-l.written < enough; {
		n = len(l.calls) - l.written
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	batch = append(batch[:0], l.calls[l.written:]...)
	l.written = len(l.calls)
	return batch, len(batch) > 0 || l.err == nil // or they have left meanwhile
}

func (l *link) read() {
	for {
		reply, err := conn.Receive(l.conn, 0) // not the timeout that the connection was dialled with: look sees to that
		if refused := redis.Error(""); errors.As(err, &refused) {
			reply, err = refused, nil
		}
		if err == nil {
			err = l.answer(reply)
		}
		if err != nil {
			l.end(err)
			return
		}
	}
}

// answer gives a reply to the oldest call. It returns why the link has to end now, or nil.
func (l *link) answer(reply any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written == 0 { // a server that has too many clients says so, and hangs up
		return fmt.Errorf("unexpected reply: %v", reply)
	}
	c := l.calls[0]
	if c.replies = append(c.replies, reply); len(c.replies) < len(c.commands) {
		return nil
	}
	l.calls = slices.Delete(l.calls, 0, 1)
	l.written--
	l.alive = c.began
	c.tell(nil)
	l.endIfIdle()
	return l.err
}

// open reports whether the link may be used for something new. A link is retired when it is too old, or when another link had
// a command unanswered and this one has answered nothing sent later. It ends when its own commands are answered.
func (l *link) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.pool.source.Lifetime
	l.retired = l.retired || d > 0 && time.Since(l.born) >= d || l.alive.Before(*l.pool.silent.Load())
	l.endIfIdle()
	return l.err == nil && !l.retired
}

// endIfIdle ends a link that is retired when nothing is under way. The caller holds l.mu.
func (l *link) endIfIdle() {
	if l.retired && len(l.calls) == 0 {
		l.fail(errRetired)
	}
}

func (l *link) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(err)
}

// fail is end for a caller that holds l.mu. What is under way gets the error: whether the server has executed it is not
// known. Where the server is silent, the undo of each command that has one is written behind it first.
func (l *link) fail(err error) {
	if l.err != nil {
		return
	}
	l.err = fmt.Errorf("a shared connection has ended: %v", err) // not %w: it is not the answer to these calls
	farewell := time.Duration(0)
	if err == errSilent { //nolint:errorlint // the very value
		farewell = maxFarewell
	}
	var last []*call
	for i, c := range l.calls {
		told := l.err
		switch {
		case farewell == 0:
		case i >= l.written && c.undoes:
			last = append(last, c)
			continue
		case i < l.written && c.undo != nil:
			last = append(last, c.takeBack())
			told = conn.ErrTimeout // so that it is not sent again over another connection, behind its undo
		}
		c.tell(told)
	}
	l.calls, l.written = last, 0
	l.timer.Stop()
	l.work.Signal()
	time.AfterFunc(farewell, l.close) // to close a connection may take as long as the process that has made it likes
}
