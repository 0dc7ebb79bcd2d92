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

// A link is one shared connection, from its dial to its end. One goroutine writes, and one reads. Neither waits for a caller.
//
//	open ─ too old, or another was silent → retired ─ all is answered → ended
//	   any ─ broken, a reply is overdue, Close → ended
type link struct {
	redis.ConnWithContext // nil: only the methods that link has itself may be used

	pool   *Pool
	conn   redis.Conn
	born   time.Time
	single bool   // it serves one caller only, and ends with its Close
	close  func() // closes conn, which ends the goroutines

	mu           sync.Mutex
	work         sync.Cond // wakes the writer: a call is queued, or the link has ended
	err          error     // not nil: the link has ended, and accepts no calls
	retired      bool      // it gets no new callers, and ends when no call is under way
	lastAnswered time.Time // when the last answered command was sent; before the first answer, when it was dialled
	calls        []*call   // the calls under way, the oldest first
	written      int       // how many of calls are written, or about to be
	timer        *time.Timer
	armed        time.Time // when the timer fires; zero: it has fired
}

const (
	enough  = 64          // with this many calls queued, the writer waits for no more
	minLife = time.Second // limits how often a server that stays a replica is dialled again
	// maxIdle is how long an unused connection stays open, at most twice that: less than some servers and firewalls allow.
	maxIdle  = 2 * time.Minute
	patience = 25 * time.Millisecond // how much later than the node timeout a reply may come
	// maxFarewell bounds the writing of undos before the link ends. It is also how much later than its command an undo may be
	// answered. Only a peer that reads nothing needs that long.
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
	l := &link{pool: p, conn: c, born: now, single: alone, lastAnswered: now, armed: now.Add(maxIdle)}
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

// abandon makes the caller of c leave with the error why, unless c has an outcome. A call that is not written yet never is.
// Behind a written one its undo is queued, and if the reply is overdue, the link ends. The caller holds l.mu.
func (l *link) abandon(c *call, why error) {
	switch i := slices.Index(l.calls, c); {
	case i < 0:
	case i >= l.written:
		l.calls = slices.Delete(l.calls, i, i+1)
		l.endIfIdle()
	default:
		if c.undo != nil {
			l.calls = append(l.calls, c.undoCall())
			l.work.Signal()
		}
		c.due = c.overdue
		l.arm(c.due)
	}
	c.tell(why) // last: after this the undo belongs to the caller again
}

// arm makes the timer fire at then, if it would not fire earlier. One timer serves all calls. The caller holds l.mu.
func (l *link) arm(then time.Time) {
	if l.err == nil && (l.armed.IsZero() || then.Before(l.armed)) {
		l.armed = then
		l.timer.Reset(max(time.Until(then), time.Millisecond)) // look visits all calls, maybe thousands
	}
}

// look makes callers leave whose time is over. It ends the link if a reply is overdue, or if nothing was sent for long.
func (l *link) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.armed = time.Time{}
	for _, c := range slices.Clone(l.calls) {
		switch {
		case now.Before(c.due):
			l.arm(c.due)
		case !c.settled:
			l.abandon(c, conn.ErrTimeout)
		default:
			l.pool.silent.Store(&c.began)
			l.fail(errSilent)
			return
		}
	}
	if len(l.calls) == 0 && now.Sub(l.lastAnswered) >= maxIdle {
		l.fail(errRetired)
	}
	l.arm(now.Add(maxIdle))
}

// write writes the queued calls. When the link has ended and the last undos are written, it closes the connection.
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

// next waits until calls are queued and returns them, in the memory of the last batch. From now on they count as written: a
// reply may arrive before the writer returns. next reports false when the link has ended and nothing is left to write.
func (l *link) next(batch []*call) ([]*call, bool) {
	clear(batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.calls) == l.written && l.err == nil {
		l.work.Wait()
	}
	// Let other goroutines run as long as they queue more calls. A send costs far more than this, and one packet serves all. A
	// call that was alone last time does not wait: if all CPUs are busy, each Gosched costs a turn of all other goroutines.
	alone := l.written == 0 && len(batch) < 2
	for n := -1; !alone && n < len(l.calls)-l.written && len(l.calls)-l.written < enough; {
		n = len(l.calls) - l.written
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	batch = append(batch[:0], l.calls[l.written:]...)
	l.written = len(l.calls)
	return batch, len(batch) > 0 || l.err == nil // an empty batch: its callers have left meanwhile
}

func (l *link) read() {
	for {
		reply, err := conn.Receive(l.conn, 0) // not the timeout of the dial: look notices an overdue reply
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

// answer gives a reply to the oldest call. It returns why the link must end now, or nil.
func (l *link) answer(reply any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written == 0 { // a server that has too many clients says so and hangs up
		return fmt.Errorf("unexpected reply: %v", reply)
	}
	c := l.calls[0]
	c.replies = append(c.replies, reply)
	if len(c.replies) < len(c.commands) {
		return nil
	}
	l.calls = slices.Delete(l.calls, 0, 1)
	l.written--
	l.lastAnswered = c.began
	c.tell(nil)
	l.endIfIdle()
	return l.err
}

// open reports whether the link may get new callers. It is retired when it is too old, or when a command of another link was
// not answered and this link has answered nothing sent later. It ends when its own commands are answered.
func (l *link) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.pool.source.Lifetime
	l.retired = l.retired || d > 0 && time.Since(l.born) >= d || l.lastAnswered.Before(*l.pool.silent.Load())
	l.endIfIdle()
	return l.err == nil && !l.retired
}

// endIfIdle ends a retired link that has no call under way. The caller holds l.mu.
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

// fail is end for a caller that holds l.mu. Calls under way get the error: whether the server has executed them is unknown. If
// the server is silent, the undos of written commands are sent before the connection closes.
func (l *link) fail(err error) {
	if l.err != nil {
		return
	}
	l.err = fmt.Errorf("a shared connection has ended: %v", err) // not %w: err is not the answer to these calls
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
			last = append(last, c.undoCall())
			told = conn.ErrTimeout // so that it is not sent again elsewhere, after its undo
		}
		c.tell(told)
	}
	l.calls, l.written = last, 0
	l.timer.Stop()
	l.work.Signal()
	time.AfterFunc(farewell, l.close) // not here: closing may block for as long as the user's connection likes
}
