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

// set is a try by SET NX PX. It takes less of the server than the script does, and knows less:
// not who holds the lock, nor whether what is in its place is a lock at all.
//
// SET can't carry a deadline. Instead, when the deadline passes without a reply, a release is
// written behind the SET on the same connection. Whenever the server gets to executing the first,
// be it after a hang or when the network has healed, it executes the second next.
func (op *operation) set() (any, error) {
	if op.left() {
		return nil, untried{errTimeout}
	}
	op.deadline = op.due
	if source := op.server.source; source.Punctual {
		op.undoes = true
		raw, err := op.command("SET", op.args.plain(&op.claims[0].Lock)...)
		op.undoes = false
		return raw, err
	}
	raw, err := op.setAndWatch()
	if err != nil {
		err = op.failed(err)
	}
	return raw, err
}

// setAndWatch is set over a connection that knows no ctx.
func (op *operation) setAndWatch() (any, error) {
	c, l := op.conn, &op.claims[0].Lock
	op.sent = time.Now()
	left := op.due.Sub(op.sent)
	if left <= 0 {
		return nil, untried{errTimeout}
	}
	if err := op.server.source.Send(c, "SET", op.args.plain(l)...); err != nil {
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
