package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// An operation is one thing that is asked of a server, from the call until nothing of it runs any more. This file is
// where its bound is kept: the call returns when the node timeout or the caller's ctx ends, whatever the pool does.
//
// Where the pool and its connections keep the deadline themselves, the caller's goroutine does the work. Else another
// goroutine does it, and a caller whose time is over abandons it: then that one cleans up when it comes back.
type operation struct {
	server *Server
	node   *node
	key    string
	action action
	ctx    opContext
	wait   *waitContext
	due    time.Time // nothing may be executed on the server after this
	end    time.Time // bound of the call; with replicas that is later
	ours   bool      // the end is that of the caller's ctx
	fresh  bool      // it uses a connection of its own, because one of the pool was silent

	background bool // no caller waits for it

	// What it is about; fields of the action. They don't change while it runs.
	claim *Claim
	try   Try
	plain bool // the try is a plain SET: it is enough for the caller, and what it takes can be renewed and released

	session session
	args    arguments
	undo    *lateUndo // of a plain try; nil until it is needed

	state atomic.Int32
	reply Reply         // set before done
	done  chan struct{} // gets a message when the caller may read the reply
	timer *time.Timer
}

// The states of an operation.
const (
	running   int32 = iota
	finished        // the reply is there
	abandoned       // the caller has gone
)

// An action is what an operation does.
type action interface {
	// ask speaks to the server, and again over a fresh connection if the one that it had has broken. So what it sends may
	// be executed twice.
	ask(ses *session) Reply
	// took takes in what came of it, once: also when the caller has gone meanwhile, or nothing was sent.
	took(op *operation, r *Reply)
}

// begin makes an operation about l. extra is what its bound has more than the timeout of l.
func (s *Server) begin(ctx context.Context, l *Lock, start time.Time, extra time.Duration) *operation {
	op, _ := s.operations.Get().(*operation)
	if op == nil {
		op = &operation{server: s, done: make(chan struct{}, 1)}
		op.ctx.op = op
	}
	if start.IsZero() {
		start = time.Now()
	}
	op.due = start.Add(l.Timeout)
	op.end = op.due.Add(extra)
	if d, ok := ctx.Deadline(); ok && d.Before(op.end) {
		op.end, op.ours = d, true
		if d.Before(op.due) {
			op.due = d
		}
	}
	op.ctx.Context, op.ctx.deadline = ctx, op.end
	if op.wait == nil {
		op.wait = new(waitContext)
	}
	op.wait.parent, op.wait.end = ctx, op.end
	op.key, op.node = l.Key, s.nodes.of(l.Key)
	s.running.Enter()
	return op
}

// free ends an operation. It is used again unless another goroutine may still look at it: the caller that has abandoned
// it, or, where the caller's ctx has ended, a context that was derived from ours.
func (op *operation) free() {
	s := op.server
	if !op.wait.over() {
		op.wait = nil
	}
	if ctx := op.ctx.Context; !op.left() && (ctx.Done() == nil || ctx.Err() == nil) {
		op.state.Store(running)
		op.action, op.claim, op.try, op.reply, op.ours, op.background = nil, nil, Try{}, Reply{}, false, false
		s.operations.Put(op)
	}
	s.running.Leave()
}

// bounded runs op and returns within its bound.
func (s *Server) bounded(op *operation, a action) (r Reply) {
	ctx, began := op.ctx.Context, s.asks()
	defer func() { s.answersTo(ctx, began, &r) }()
	op.action = a
	if err := op.ctx.Err(); err != nil {
		return op.unsent(err)
	}
	if b, many := a.(batch); many {
		op.fresh = false
		b.keys(func(key string) { op.fresh = s.wasSilent(key, op.background) || op.fresh })
	} else {
		op.fresh = s.wasSilent(op.key, false)
	}
	if !s.source.Punctual {
		return op.apart()
	}
	op.run()
	return op.result()
}

// unsent ends an operation of which nothing was sent.
func (op *operation) unsent(err error) Reply {
	reply := Reply{Err: err}
	op.action.took(op, &reply)
	op.blame(&reply)
	op.free()
	return reply
}

// apart has another goroutine run op, and waits for it as long as it may take.
func (op *operation) apart() Reply {
	ctx, l := op.ctx.Context, &op.node.limit
	if err := l.enter(ctx, op.end); err != nil {
		return op.unsent(err)
	}
	if op.timer == nil {
		op.timer = time.NewTimer(time.Until(op.end))
	} else {
		op.timer.Reset(time.Until(op.end))
	}
	go func() {
		op.run()
		op.finish()
	}()
	err := errTimeout
	select {
	case <-op.done:
		op.timer.Stop()
		return op.result()
	case <-op.timer.C:
	case <-ctx.Done():
		op.timer.Stop()
		err = ctx.Err()
	}
	late := err == errTimeout //nolint:errorlint // the very value
	if late && op.ours {
		err = context.DeadlineExceeded
	}
	if !op.state.CompareAndSwap(running, abandoned) {
		<-op.done // it came back just then
		return op.result()
	}
	if late {
		l.overdue()
	}
	op.server.nodes.clock(op.key).forget() // who answers next may be another server
	reply := Reply{Err: err}
	op.hear(&reply)
	return reply
}

// result returns the reply of an operation that is finished.
func (op *operation) result() Reply {
	reply := op.reply
	op.hear(&reply)
	op.blame(&reply)
	op.free()
	return reply
}

// left reports whether the caller has gone, so that nothing more is to be sent that the server could execute.
func (op *operation) left() bool { return op.state.Load() == abandoned }

// run does the work, on the goroutine of the caller or another one.
func (op *operation) run() {
	ses := &op.session
	*ses = session{op: op, key: op.key, fresh: op.fresh}
	reply := &op.reply // a variable of this function would escape
	*reply = Reply{Err: ses.connect()}
	if reply.Err == nil {
		*reply = op.action.ask(ses)
		for !reply.There && ses.severed(reply.Err) && ses.redial() {
			*reply = op.action.ask(ses)
		}
	}
	ses.close()
	op.action.took(op, reply)
}

// finish hands the reply over, or cleans up where no caller waits for it.
func (op *operation) finish() {
	inTime := op.state.CompareAndSwap(running, finished)
	op.node.limit.leave(inTime)
	if inTime {
		op.done <- struct{}{}
	} else {
		op.free()
	}
}

// blame puts the end of the caller's ctx in the place of what it looked like on the connection, or on the server: what
// came too late by all that we know of its clock did so in the last moments of ctx.
func (op *operation) blame(r *Reply) {
	if r.Verdict != Failed {
		return
	}
	ctx := op.ctx.Context
	switch {
	case op.ours && errors.Is(r.Err, errLate):
		timer := time.NewTimer(time.Until(op.end))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	case !TimedOut(r.Err) && !errors.Is(r.Err, context.Canceled):
		return
	}
	if err := ctx.Err(); err != nil {
		r.Err = err
	} else if op.ours {
		r.Err = context.DeadlineExceeded
	}
}
