package mux

import (
	"errors"
	"fmt"
	"time"
)

// This is how a link ends: at once, because it broke or is not wanted any more; or after its undos were written, because a
// reply is overdue.

// fail ends the link. What was under way gets the error: whether the server has executed it is not known.
func (l *link) fail(err error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	orphans := l.end(err)
	l.queue = nil
	l.mu.Unlock()
	l.bury(orphans)
	l.close()
}

// end is the part of fail for which the caller holds l.mu. It returns the calls that have to be told.
func (l *link) end(err error) (orphans []*call) {
	l.err = fmt.Errorf("a shared connection has ended: %v", err) // not %w: it is not the answer to these calls
	if errors.Is(err, errClosed) {
		l.err = err
	}
	for _, c := range append(l.flying.all(), l.queue...) {
		if !c.over {
			c.over, c.err = true, l.err
			orphans = append(orphans, c)
		}
	}
	l.flying = flight{}
	l.disarm()
	return orphans
}

// bury is the part of fail after it.
func (l *link) bury(orphans []*call) {
	l.pool.lost(l, l.err)
	for _, c := range orphans {
		c.done <- struct{}{}
	}
	l.rouse()
}

// giveUp ends a link on which a reply is overdue. It writes behind each command that has an undo that undo; what was not
// written yet never is. The caller holds l.mu, and has to bury what is returned.
func (l *link) giveUp(err error) (orphans []*call) {
	flying := l.flying.all()
	unsent := l.queue
	l.queue = nil
	for _, c := range unsent {
		if c.over { // an undo, or what no caller waits for
			l.queue = append(l.queue, c)
		}
	}
	undone := make(map[*call]bool)
	for _, c := range flying {
		if c.undo != nil {
			l.undo(c)
			undone[c] = true
		}
	}
	farewell := l.queue
	l.queue = unsent
	orphans = l.end(err)
	for _, c := range orphans {
		if undone[c] {
			c.err = errLate // so that it is not sent again over another connection, behind its undo
		}
	}
	l.queue = farewell
	time.AfterFunc(maxFarewell, l.close)
	return orphans
}

// close closes the connection, which ends the goroutines.
func (l *link) close() { l.once.Do(func() { l.conn.Close() }) }
