package mux

import (
	"time"

	"github.com/redimutex/redimutex/internal/conn"
)

// A batch is commands with their arguments, which are strings and numbers.
type batch struct {
	commands []command
	args     []any // of all commands
}

type command struct {
	name string
	args int // how many
}

// add copies args: a caller that gives up may use them for something else while they are still to be written.
func (b *batch) add(name string, args ...any) error {
	b.commands = append(b.commands, command{name, len(args)})
	b.args = append(b.args, args...)
	return nil
}

func (b *batch) send(send func(name string, args ...any) error) error {
	args := b.args
	for _, c := range b.commands {
		if err := send(c.name, args[:c.args]...); err != nil {
			return err
		}
		args = args[c.args:]
	}
	return nil
}

func (b *batch) reset() {
	clear(b.args)
	b.commands, b.args = b.commands[:0], b.args[:0]
}

// A call is commands on their way to the server and back. It belongs to its caller, but for the time that its link has it.
type call struct {
	batch
	undo     []any // a command to write behind them if they are late; it belongs to the caller
	link     *link
	began    time.Time
	deadline time.Time

	// Protected by link.mu while the link has it.
	replies []any
	over    bool // the caller was told

	done  chan error  // tells the caller: nil with the last reply, or why there is none
	timer *time.Timer // fires at the deadline
}

// tell ends a call, unless that has happened. The caller of tell holds link.mu.
func (c *call) tell(err error) {
	if !c.over {
		c.over = true
		c.done <- err
	}
}

// newCall returns a call without commands.
func (p *Pool) newCall() *call {
	if c, _ := p.calls.Get().(*call); c != nil {
		return c
	}
	c := &call{done: make(chan error, 1)}
	c.timer = time.AfterFunc(time.Hour, func() { c.link.abandon(c, conn.ErrTimeout) })
	c.timer.Stop()
	return c
}

// free is for a call that is not used any more, and has its replies.
func (p *Pool) free(c *call) {
	if !c.timer.Stop() {
		return // it is just looking at the call
	}
	c.reset()
	clear(c.replies)
	c.replies, c.undo, c.over = c.replies[:0], nil, false
	p.calls.Put(c)
}
