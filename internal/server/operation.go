package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

// An operation is what one call asks of a server, from the call until nothing of it runs any more. This file keeps its bound:
// the call returns when the node timeout is over or the caller's ctx ends, whatever the pool does.
// If the pool and its connections keep deadlines themselves, the caller's goroutine does the work. Otherwise another goroutine
// does it. A caller whose time is over abandons that goroutine, which cleans up when it comes back.
// An operation is also the ctx of its commands: the caller's ctx with a deadline. Done and Err are those of the caller's ctx,
// so that context.AfterFunc needs no goroutine for it. That is why Done is not closed at the deadline.
type operation struct {
	context.Context // the caller's
	server          *Server
	began           time.Time
	due             time.Time // the server may execute nothing after this
	end             time.Time // the call returns by then; with replicas it is later than due
	endsWithCaller  bool      // end is the deadline of the caller's ctx

	// What is asked. Only the replies change while the operation runs.
	verb     verb
	requests []request // at least one
	try      Try
	fence    int64                    // the fence counters are raised to this
	ask      func(*operation) error   // not nil: called instead of sending scripts
	aside    bool                     // not an operation of a lock that a caller waits for
	report   func(place int, r Reply) // gets the replies, when the operation is over for its caller; or nil

	todo  []*request  // those whose scripts are sent next
	fresh atomic.Bool // its connection is dialled for it
	state atomic.Int32
	done  chan struct{} // gets a message when another goroutine has done the work
	timer *time.Timer   // set by apart: fires at the end

	// Its connection, and what was said over it.
	conn           redis.Conn
	key            string    // the key that the connection is for
	pinned         bool      // the connection is bound to the cluster node of the key
	bad            bool      // the pool must not keep the connection
	backToPool     bool      // a dialled connection was of no use: the next ones come from the pool
	redials        int       // how often another connection took the place of one that broke or led to a replica
	repeats        bool      // a command over a broken connection may have been executed, or may still be
	deadline       time.Time // of the next command
	undoes         bool      // the command that may be interrupted now is a plain SET
	lent           bool      // a pool, or what it calls, may keep the operation as a ctx
	sent, received time.Time // when the last command was sent, and its reply received
	args           arguments
}

// The states of an operation.
const (
	running   int32 = iota
	finished        // the replies are there
	abandoned       // the caller has left: nothing more is to be sent that the server could execute, but releases
)

// begin returns an operation about c. Its bound begins at start, and lasts for the timeout of c plus extra.
func (s *Server) begin(ctx context.Context, v verb, c *Claim, start time.Time, extra time.Duration) *operation {
	op, _ := s.operations.Get().(*operation)
	if op == nil {
		op = &operation{server: s, done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	}
	op.Context, op.began, op.verb = ctx, start, v
	op.due = start.Add(c.Timeout)
	op.end = op.due.Add(extra)
	if d, ok := ctx.Deadline(); ok && d.Before(op.end) {
		op.end, op.endsWithCaller = d, true
		if d.Before(op.due) {
			op.due = d
		}
	}
	op.key = c.Key
	op.requests = append(op.requests, request{claim: c})
	s.running.Enter()
	return op
}

// free ends an operation. Its memory is used again, unless another goroutine may still look at it: the caller that has
// abandoned it, or a dial that has it as ctx.
func (op *operation) free() {
	s := op.server
	if op.fresh.Load() {
		s.beside.Add(-1)
	}
	if op.state.Load() != abandoned && !op.lent {
		clear(op.requests)
		*op = operation{
			server: s, done: op.done, timer: op.timer, args: op.args, requests: op.requests[:0], todo: op.todo[:0],
		}
		s.operations.Put(op)
	}
	s.running.Leave()
}

// do runs op and returns its first reply within its bound.
func (op *operation) do() (first Reply) {
	s := op.server
	s.noteBegin(op)
	key, free := op.key, !s.Source.Full() // read now: op may change key once it is abandoned
	_, round := op.Context.(*Round)       // then this is a goroutine of the round, and waits for its turn at the node
	var left error                        // why op runs on without its caller; nil: op is over
	switch {
	case op.Err() != nil:
		op.run(op.Err())
	case s.Source.Punctual && !round:
		op.run(nil)
	default:
		left = op.apart()
	}
	if left != nil {
		s.nodes.at(key).clock.forget(op.began) // the next answer may be another server's
	}
	silent, failed := false, 0
	for i := range op.requests {
		r, asked := Reply{Err: left}, &op.requests[i]
		if left == nil || asked.told.Load() && asked.claim.Replicas.N == 0 { // an answer that came in time counts
			r = asked.reply
		} else if op.verb == release {
			// The runner sends another release, because a pool may hang for longer than the lock lasts. An answer that this
			// operation still gets is taken in as well.
			asked.claim.answered(&Reply{Err: errTimeout})
		}
		if r.Verdict == Failed && !errors.Is(r.Err, errEnded) { // otherwise the server has answered well
			failed++
			silent = silent || timedOut(r.Err)
			op.blame(&r)
		}
		if i == 0 {
			first = r
		}
		if op.report != nil {
			op.report(asked.place, r)
		}
	}
	s.noteEnd(op, silent, errors.Is(first.Err, context.Canceled), free, failed)
	if left == nil {
		op.free()
	}
	return first
}

// apart waits for the turn of op at the node, and then runs op within its bound: on another goroutine, unless the pool is
// punctual. It returns nil when op is over, or why op runs on without its caller.
func (op *operation) apart() error {
	node, ctx := op.server.nodes.at(op.key).node, op.Context
	limits := &node.others
	if op.verb == extend {
		limits = &node.extensions
	}
	l, err := limits.enter(op)
	if err != nil {
		op.run(err)
		return nil
	}
	prompt := time.Since(op.began) < op.end.Sub(op.began)/4 // else op will be late because its turn came late
	if op.server.Source.Punctual {
		op.run(nil) // on this goroutine: in a Round it is not the caller's
		inTime := time.Now().Before(op.end)
		if !inTime {
			l.abandon(prompt)
		}
		l.leave(op, inTime)
		return nil
	}
	op.timer.Reset(time.Until(op.end))
	go func() {
		op.run(nil)
		inTime := op.state.CompareAndSwap(running, finished)
		l.leave(op, inTime)
		if inTime {
			op.done <- struct{}{}
		} else {
			op.free() // no caller waits
		}
	}()
	why, late := errTimeout, false
	select {
	case <-op.done:
		op.timer.Stop()
		if l == &limits.dialled && op.requests[0].reply.Verdict != Failed {
			limits.pooled.probe()
		}
		return nil
	case <-op.timer.C:
		late = prompt
	case <-ctx.Done():
		op.timer.Stop()
		why = ctx.Err()
	}
	if !op.state.CompareAndSwap(running, abandoned) {
		<-op.done // op has come back meanwhile
		return nil
	}
	l.abandon(late)
	return why
}

// run does the work, on the caller's goroutine or another one. If the connection breaks it repeats the work over another, so
// commands may be executed twice. If err is given nothing is sent. The last error is the reply to requests without one.
func (op *operation) run(err error) {
	if err != nil {
		err = untried{err}
	} else {
		for err = op.attempt(); err != nil && op.goesOn(err); err = op.attempt() {
			op.redials, op.repeats, op.backToPool = op.redials+1, op.repeats || op.conn != nil, op.fresh.Load()
			op.close()
			op.freshen()
		}
	}
	op.close()
	for i := range op.requests {
		switch r := &op.requests[i]; {
		case r.told.Load():
		case err != nil:
			op.tell(r, Reply{Err: err})
		case op.ask != nil:
			op.tell(r, Reply{Verdict: Done})
		}
	}
}

// tell records the reply to a request, once, as soon as it is known, and passes it to the claim.
func (op *operation) tell(r *request, reply Reply) {
	r.reply = reply
	defer r.told.Store(true)
	switch {
	case verbs[op.verb].creates:
		unanswered := op.repeats || reply.Verdict == Failed && !noEffect(reply.Err) // the first of two may still be executed
		due, cut := op.due, unanswered && conn.Ended(op.Context) != nil
		if op.try.Plain { // a SET has no deadline: it may be executed late although its caller gave up early
			due = op.began.Add(r.claim.Timeout)
		}
		r.claim.tried(&op.try, &r.reply, unanswered, cut, due)
		for _, other := range op.try.With {
			other.tried(new(Try), &r.reply, unanswered, cut, op.due)
		}
	case op.verb == extend:
		r.claim.extended(&r.reply, op.repeats || reply.Verdict == Failed, op.due)
	case op.verb == release:
		r.claim.answered(&r.reply)
		if op.repeats && (reply.Verdict == Missing || reply.Verdict == Taken) {
			r.reply.Verdict = Done // the command over the broken connection may have released the lock
		}
	}
	if reply.Verdict != Failed && op.pinned {
		op.server.nodes.askSlots(op.key)
	}
}

// blame replaces a timeout, or a refusal as too late, by the error of the caller's ctx, if ctx ended first.
func (op *operation) blame(r *Reply) {
	late := errors.Is(r.Err, errLate) || errors.Is(r.Err, errShort)
	switch {
	case late && op.endsWithCaller && op.due.Before(op.end): // too late for the node timeout, not for ctx
		return
	case late && op.endsWithCaller: // the refusal came some ms before ctx ends: wait for that
		select {
		case <-time.After(time.Until(op.end)):
		case <-op.Done():
		}
	case !timedOut(r.Err) && !errors.Is(r.Err, context.Canceled):
		return
	}
	if err := op.Err(); err != nil {
		r.Err = err
	} else if op.endsWithCaller && !time.Now().Before(op.end) { // before that, the connection had a timeout of its own
		r.Err = context.DeadlineExceeded
	}
}

// Deadline returns the deadline of the next command.
func (op *operation) Deadline() (time.Time, bool) {
	if op.conn == nil {
		op.lent = true // to a pool, or to what it calls
	}
	return op.deadline, true
}

// Value answers conn.Undo with the command that undoes an interrupted plain SET, and conn.Caller with the caller's ctx. A
// connection watches its last ctx until it has another, and by then the operation may belong to another caller.
func (op *operation) Value(key any) any {
	switch key {
	case conn.Undo:
		if !op.undoes {
			return nil
		}
		return op.args.undo()
	case conn.Caller:
		return op.Context
	}
	return op.Context.Value(key)
}
