package server

import (
	"time"

	"github.com/redimutex/redimutex/internal/conn"
)

const (
	// grace is how much longer we read than the deadline says: the connection has to be open when the
	// timer for the undo fires, and a busy machine fires it late.
	grace = 100 * time.Millisecond
	// drain is how long to wait for a reply that should be there already.
	drain = 20 * time.Millisecond
)

// trySet is a try by SET NX PX. It takes less of the server than the script does, and knows less:
// not who holds the lock, nor whether what is in its place is a lock at all.
//
// SET can't carry a deadline. Instead, when the deadline passes without a reply, a release is
// written behind the SET on the same connection. Whenever the server gets to executing the first,
// be it after a hang or when the network has healed, it executes the second next.
func (op *operation) trySet() error {
	if op.left() {
		return untried{errTimeout}
	}
	op.deadline = op.due
	sent := time.Now()
	raw, err := op.set(sent)
	if err != nil {
		if err = op.failed(err); op.follow(err) {
			op.deadline = op.due
			sent = time.Now()
			if raw, err = op.set(sent); err != nil {
				err = op.failed(err)
			}
		}
	}
	switch {
	case err != nil:
		return err
	case raw == nil:
		op.replies[0] = Reply{Verdict: Held, Sent: sent}
	default:
		op.replies[0] = Reply{Verdict: Done, Sent: sent}
	}
	return nil
}

// set sends one SET and reads the reply.
func (op *operation) set(now time.Time) (any, error) {
	source, l := op.server.source, &op.claims[0].Lock
	if source.Punctual {
		op.undoes = true
		raw, err := source.Do(op, op.conn, "SET", op.args.plain(l)...)
		op.undoes = false
		return raw, err
	}
	left := op.due.Sub(now)
	if left <= 0 {
		return nil, untried{errTimeout}
	}
	c := op.conn
	if err := source.Send(c, "SET", op.args.plain(l)...); err != nil {
		return nil, err
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	written := make(chan struct{})
	undo := time.AfterFunc(left, func() { // beside the goroutine that waits for the reply, which redigo allows
		defer close(written)
		back := undoPlain(nil, l.Key, l.Token)
		if c.Send(back[0].(string), back[1:]...) == nil {
			_ = c.Flush() // if it fails, the release in the background is left
		}
	})
	raw, err := conn.Receive(c, left+grace)
	if undo.Stop() {
		return raw, err
	}
	<-written
	if err == nil { // the reply and the deadline came together; the connection still owes one
		_, _ = conn.Receive(c, drain)
	}
	return nil, errTimeout
}
