package server

import (
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// grace is how much longer we read than the deadline says: the connection has to be open when the
	// timer for the undo fires, and a busy machine fires it late.
	grace = 100 * time.Millisecond
	// drain is how long to wait for a reply that should be there already.
	drain = 20 * time.Millisecond
)

// acquirePlain is acquire by SET NX PX. It takes less of the server than the script does, and knows less:
// not who holds the lock, nor whether what is in its place is a lock at all; so it serves for
// the first try of a caller that will go on trying anyhow.
//
// SET can't carry a deadline. Instead, when the deadline passes without a reply, a release is
// written behind the SET on the same connection. Whenever the server gets to executing the first,
// be it after a hang or when the network has healed, it executes the second next.
func (ses session) acquirePlain(r *Request) Reply {
	args := newArguments()
	defer args.free()
	sent := ses.deadline.Add(-r.Timeout - r.ReplicaTimeout) // or a little before
	if c, ok := ses.conn.(untilConn); ok {
		set := args.plain(r)
		raw, err := c.DoUntil(ses.deadline, args.undo(), "SET", set...)
		if err != nil {
			err = normalize(err)
		}
		return parsePlain(raw, err, sent)
	}
	if err := ses.conn.Send("SET", args.plain(r)...); err != nil {
		return Reply{Err: normalize(err), Sent: sent}
	}
	if err := ses.conn.Flush(); err != nil {
		return Reply{Err: normalize(err), Sent: sent}
	}
	u := ses.undos.Get().(*undo)
	u.arm(ses.conn, r)
	raw, err := ses.receive(r.Timeout + grace)
	if u.disarm() {
		if err == nil { // the reply and the deadline came together; the connection still owes one
			_, _ = ses.receive(drain)
		}
		return Reply{Err: errTimeout, Sent: sent}
	}
	ses.undos.Put(u)
	return parsePlain(raw, err, sent)
}

// parsePlain reads the reply to SET NX.
func parsePlain(raw any, err error, sent time.Time) Reply {
	switch {
	case err != nil:
		return Reply{Err: err, Sent: sent}
	case raw == nil:
		return Reply{Verdict: Held, Sent: sent}
	}
	return Reply{Verdict: Done, Sent: sent}
}

// An undo writes a release behind a SET whose reply is overdue. It is used again unless it fired,
// but only by its server: a timer must not leave the testing/synctest bubble in which it was made.
type undo struct {
	mu    sync.Mutex
	timer *time.Timer
	conn  redis.Conn // nil: not armed
	key   string
	token string
	fired bool
}

func (u *undo) arm(conn redis.Conn, r *Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conn, u.key, u.token = conn, r.Key, r.Token
	if u.timer == nil {
		u.timer = time.AfterFunc(r.Timeout, u.fire)
	} else {
		u.timer.Reset(r.Timeout)
	}
}

// fire runs beside the goroutine that waits for the reply, which redigo allows: one reads, one writes.
func (u *undo) fire() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn == nil {
		return // disarmed while the timer was firing
	}
	u.fired = true
	if u.conn.Send("EVAL", releaseScript.source, 1, u.key, u.token) == nil {
		_ = u.conn.Flush() // if it fails, the sweeper is left
	}
}

// disarm reports whether the release was written.
func (u *undo) disarm() bool {
	u.timer.Stop()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conn, u.key, u.token = nil, "", ""
	return u.fired
}
