package server

import (
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

const (
	// grace is how much longer we read than the deadline says: the connection has to be open when the
	// timer for the undo fires, and a busy machine fires it late.
	grace = 100 * time.Millisecond
	// drain is how long to wait for a reply that should be there already.
	drain = 20 * time.Millisecond
)

// acquirePlain is acquire by SET NX PX. It takes less of the server than the script does, and knows less:
// not who holds the lock, nor whether what is in its place is a lock at all.
//
// SET can't carry a deadline. Instead, when the deadline passes without a reply, a release is
// written behind the SET on the same connection. Whenever the server gets to executing the first,
// be it after a hang or when the network has healed, it executes the second next.
func (ses *session) acquirePlain(l *Lock) Reply {
	op := ses.op
	if op.left() {
		return Reply{Err: untried{errTimeout}}
	}
	sent := time.Now()
	raw, err := ses.setPlain(l, sent)
	if err != nil {
		err = ses.failed(err)
		if ses.follow(err) {
			sent = time.Now()
			raw, err = ses.setPlain(l, sent)
		}
	}
	switch {
	case err != nil:
		return Reply{Err: conn.Plain(err), Sent: sent}
	case raw == nil:
		return Reply{Verdict: Held, Sent: sent}
	}
	return Reply{Verdict: Done, Sent: sent}
}

// setPlain sends one SET and reads the reply.
func (ses *session) setPlain(l *Lock, now time.Time) (any, error) {
	op := ses.op
	if op.server.source.Punctual {
		op.ctx.undoes = true
		raw, err := op.server.source.Do(&op.ctx, ses.conn, "SET", op.args.plain(l)...)
		op.ctx.undoes = false
		return raw, err
	}
	left := op.due.Sub(now)
	if left <= 0 {
		return nil, untried{errTimeout}
	}
	if err := op.server.source.Send(ses.conn, "SET", op.args.plain(l)...); err != nil {
		return nil, err
	}
	if err := ses.conn.Flush(); err != nil {
		return nil, err
	}
	if op.undo == nil {
		op.undo = new(lateUndo)
	}
	op.undo.arm(ses.conn, l, left)
	raw, err := conn.Receive(ses.conn, left+grace)
	stopped, written := op.undo.disarm()
	if !stopped {
		op.undo = nil // it may be about to look
	}
	if written {
		if err == nil { // the reply and the deadline came together; the connection still owes one
			_, _ = conn.Receive(ses.conn, drain)
		}
		return nil, errTimeout
	}
	return raw, err
}

// A lateUndo writes a release behind a SET whose reply is overdue.
type lateUndo struct {
	mu    sync.Mutex
	timer *time.Timer
	conn  redis.Conn // nil: not armed
	lock  Lock
	fired bool
}

func (u *lateUndo) arm(c redis.Conn, l *Lock, d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conn, u.lock = c, *l
	if u.timer == nil {
		u.timer = time.AfterFunc(d, u.fire)
	} else {
		u.timer.Reset(d)
	}
}

// fire runs beside the goroutine that waits for the reply, which redigo allows: one reads, one writes.
func (u *lateUndo) fire() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn == nil {
		return // disarmed while the timer was firing
	}
	u.fired = true
	undo := undoPlain(nil, u.lock.Key, u.lock.Token)
	if u.conn.Send(undo[0].(string), undo[1:]...) == nil {
		_ = u.conn.Flush() // if it fails, the release in the background is left
	}
}

// disarm reports whether the timer was stopped, so that u can be used again, and whether the release was written.
func (u *lateUndo) disarm() (stopped, written bool) {
	stopped = u.timer.Stop()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conn, u.lock = nil, Lock{}
	return stopped, u.fired
}
