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
	"github.com/redimutex/redimutex/internal/punctual"
)

// A link is one shared connection, from the dial to the end. One goroutine writes to it and one reads; nothing that they do
// waits for a caller.
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
	work    sync.Cond // for the writer: something is to be written, or the link has ended
	err     error     // not nil: it has ended, and takes nothing more in
	retired bool      // it takes nothing more in, and ends when nothing is under way
	alive   time.Time // when the last command was sent that was answered; before the first, when it was dialled
	calls   []*call   // what is under way, the oldest first
	written int       // how many of calls are written, or about to be
	out     batch     // the commands of the others
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
	// maxFarewell bounds the writing of undos before the end. Only a peer that takes nothing needs as long.
	maxFarewell = time.Second
)

var (
	errClosed  = errors.New("the Client is closed, and its connections with it")
	errRetired = errors.New("it was too old, or another one was silent")
	errSilent  = errors.New("the server does not answer")
	errDemoted = errors.New("the server has become a replica")
)

// newLink starts a link, whose goroutines run runs.
func newLink(p *Pool, c redis.Conn, run func(func())) *link {
	now := time.Now()
	l := &link{pool: p, conn: c, born: now, alive: now, close: sync.OnceFunc(func() { c.Close() })}
	l.work.L = &l.mu
	run(l.write)
	run(l.read)
	return l
}

// enqueue has a command written, or the batch of ctx. The arguments are copied: the caller may use them for something else
// when it has left.
func (l *link) enqueue(ctx context.Context, c *call, name string, args []any) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	c.at = len(l.out.commands)
	if name != "" {
		err = l.out.add(name, args...)
	} else {
		err = punctual.SendBatch(ctx, l.out.add)
	}
	switch c.owed = len(l.out.commands) - c.at; {
	case err != nil:
		l.out.drop(c)
	case c.owed == 0:
		c.tell(nil)
	default:
		l.calls = append(l.calls, c)
		l.work.Signal()
	}
	return err
}

// leave takes c back, and reports false if it has an outcome already. What is not written yet never is. Else the undo of c
// is written behind it, and the link ends if the reply is overdue.
func (l *link) leave(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.calls, c)
	switch {
	case i < 0:
		return false
	case i >= l.written:
		l.out.drop(c)
		l.calls = slices.Delete(l.calls, i, i+1)
		l.rest()
		return true
	}
	late := &call{began: c.began, owed: c.owed}
	l.calls[i] = late
	if c.undo != nil {
		l.calls = append(l.calls, &call{began: time.Now(), at: len(l.out.commands), owed: 1})
		l.out.undo(c)
		l.work.Signal()
	}
	time.AfterFunc(time.Until(c.overdue), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if slices.Contains(l.calls, late) {
			l.pool.silent.Store(&late.began)
			l.fail(errSilent)
		}
	})
	return true
}

// write writes what is queued. In the end it closes the connection, when the last undos are written.
func (l *link) write() {
	defer l.close()
	var b batch
	for l.launch(&b) {
		if err := b.send(l.conn); err != nil {
			l.end(err)
			return
		}
	}
}

// launch waits until something is queued, and puts it into b. It counts as written from now on: the reply may be there
// before the writer is back. launch reports false when the link has ended.
func (l *link) launch(b *batch) bool {
	clear(b.args)
	b.commands, b.args = b.commands[:0], b.args[:0]
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.out.commands) == 0 && l.err == nil {
		l.work.Wait()
	}
	// Others run as long as they have something to send as well. Sending is what costs, far more than this does, and one
	// packet serves them all.
	for n := -1; n < len(l.out.commands) && len(l.out.commands) < enough; {
		n = len(l.out.commands)
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	*b, l.out = l.out, *b
	l.written = len(l.calls)
	return len(b.commands) > 0
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

// land gives a reply to the oldest call. It returns why the link has to end now, or nil.
func (l *link) land(reply any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written == 0 { // a server that has too many clients says so, and hangs up
		return fmt.Errorf("unexpected reply: %v", reply)
	}
	c := l.calls[0]
	c.replies = append(c.replies, reply)
	if c.owed--; c.owed > 0 {
		return nil
	}
	l.calls = slices.Delete(l.calls, 0, 1)
	l.written--
	l.alive = c.began
	c.tell(nil)
	l.rest()
	return l.err
}

// open reports whether the link may be used for something new. One that is as old as its pool lets it be, or has answered
// nothing that was sent after the last command that another one did not answer, ends when what is under way is answered.
func (l *link) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.pool.source.Lifetime
	l.retired = l.retired || d > 0 && time.Since(l.born) >= d || l.alive.Before(*l.pool.silent.Load())
	l.rest()
	return l.err == nil && !l.retired
}

// rest ends a link that is retired when nothing is under way. The caller holds l.mu.
func (l *link) rest() {
	if l.retired && len(l.calls) == 0 {
		l.fail(errRetired)
	}
}

// end ends the link.
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
	if l.err = err; err != errClosed { //nolint:errorlint // the very value
		l.err = fmt.Errorf("a shared connection has ended: %v", err) // not %w: it is not the answer to these calls
	}
	farewell := time.Duration(0)
	if err == errSilent { //nolint:errorlint // same
		farewell = maxFarewell
	}
	for i, c := range l.calls {
		told := l.err
		switch {
		case i < l.written && c.undo != nil && farewell > 0:
			l.out.undo(c)
			told = conn.ErrTimeout // so that it is not sent again over another connection, behind its undo
		case i >= l.written && (c.done != nil || farewell == 0):
			l.out.drop(c) // else it is an undo
		}
		c.tell(told)
	}
	l.calls, l.written = nil, 0
	l.work.Signal()
	time.AfterFunc(farewell, l.close) // to close a connection may take as long as the process that has made it likes
}

// A batch is commands with their arguments, which are strings and numbers.
type batch struct {
	commands []command
	args     []any // of all commands
}

type command struct {
	name string // "": dropped
	args int    // how many
}

func (b *batch) add(name string, args ...any) error {
	b.commands = append(b.commands, command{name, len(args)})
	b.args = append(b.args, args...)
	return nil
}

// undo adds what takes c back.
func (b *batch) undo(c *call) { b.add(c.undo[0].(string), c.undo[1:]...) } //nolint:errcheck // never fails

// drop takes the commands of c out, which are not written yet.
func (b *batch) drop(c *call) {
	for i := range c.owed {
		b.commands[c.at+i].name = ""
	}
}

func (b *batch) send(c redis.Conn) error {
	args := b.args
	for _, command := range b.commands {
		if command.name != "" {
			if err := c.Send(command.name, args[:command.args]...); err != nil {
				return err
			}
		}
		args = args[command.args:]
	}
	return c.Flush()
}
