package server

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

// A request is one script for one claim, and what came of it.
type request struct {
	claim *Claim
	ttl   time.Duration // what it asks for; 0: nothing
	place int           // in the batch of its caller
	reply Reply

	told        atomic.Bool // the reply is there, which nothing changes but the replicas
	again       bool        // it has to be sent once more
	unconfirmed bool        // it waits for replicas
}

// scripts runs the script of each request that has no reply yet. This is where all scripts are sent. What the first exchange
// could not settle goes alone, to where it has to.
func (op *operation) scripts() error {
	op.todo = op.todo[:0]
	for i := range op.requests {
		if r := &op.requests[i]; !r.told.Load() {
			op.todo = append(op.todo, r)
		}
	}
	if err := op.exchange(false); err != nil {
		return err
	}
	for i := range op.requests {
		r := &op.requests[i]
		if r.told.Load() {
			continue
		}
		var err error
		if op.pinned {
			op.server.nodes.at(r.claim.Key).clock.forget(time.Now()) // it may be another node's
			elsewhere := op.server.nodes.at(op.key).node != op.server.nodes.at(r.claim.Key).node
			if op.key = r.claim.Key; op.conn == nil || elsewhere {
				op.close()
				err = op.connect()
			}
		}
		if err == nil {
			op.todo = append(op.todo[:0], r)
			err = op.exchange(true)
		}
		if err != nil {
			op.tell(r, Reply{Err: err})
		}
	}
	return nil
}

// set is a try by SET NX PX. It takes less of the server than the script does, and knows less: not who holds the lock, nor
// whether what is in its place is a lock at all. So the script follows where it does not take the lock, can't be sent, or
// is refused alone, as by Redis 5.0 with too few replicas. A repeat over another connection is a script: it finds its token.
//
// SET can't carry a deadline. Instead, when that passes without a reply, a release is written behind the SET on the same
// connection. Whenever the server gets to executing the first, after a hang or a cut, it executes the second next.
func (op *operation) set() error {
	op.deadline, op.undoes = op.due, true
	r := &op.requests[0]
	raw, err := op.command("SET", op.args.plain(&r.claim.Lock)...)
	op.undoes = false
	switch {
	case err == nil && raw != any("OK"), coded(err, "NOREPLICAS"), errors.Is(err, conn.ErrNoSend), op.follow(err, 0):
		return op.scripts()
	case err != nil:
		return err
	}
	op.tell(r, Reply{Verdict: Done, Sent: op.sent})
	r.unconfirmed = r.claim.Replicas.N > 0
	op.confirm(nil)
	return nil
}

// maxMoves is how often a command goes to where the node that it was sent to says that the slot is. After a failover the
// nodes hear of it one by one, and a pool may go back to what one says that has not.
const maxMoves = 3

// exchange runs the scripts that are to do, and has the replicas confirm them. One that the server refused as late, because
// our estimate of its clock was wrong, is sent once more. What a replica refuses, TIME included, is sent to the primary. In a
// cluster a script that goes alone is sent to where its key has moved.
func (op *operation) exchange(alone bool) (err error) {
	if op.requests[0].claim.Replicas.N > 0 { // all want the same
		defer func() { op.confirm(err) }()
	}
	for n := 0; len(op.todo) > 0; n++ {
		if verbs[op.verb].timed {
			op.deadline = op.due
			if err := op.learnClocks(); op.follow(err, n) {
				continue
			} else if err != nil {
				return untried{err}
			}
		}
		if err := op.send(n, alone); err != nil {
			since := time.Now()
			if timedOut(err) {
				since = op.began
			}
			for _, r := range op.todo {
				op.server.nodes.at(r.claim.Key).clock.forget(since) // who answers next may be another server, after a failover
			}
			return err
		}
		op.todo = slices.DeleteFunc(op.todo, func(r *request) bool { return !r.again })
	}
	return nil
}

// learnClocks asks the server for its time, if that is not known. One answer does for all keys of an operation: it has one node.
func (op *operation) learnClocks() error {
	var unknown []*clock
	for _, r := range op.todo {
		c := op.server.nodes.at(r.claim.Key).clock
		if _, known := c.at(op.due); !known {
			unknown = append(unknown, c)
		}
	}
	if unknown == nil {
		return nil
	}
	v, err := redis.Int64s(op.command("TIME"))
	if err != nil {
		return err
	}
	if len(v) != 2 {
		return errors.New("an unexpected reply to TIME")
	}
	if op.state.Load() == abandoned { // it may be the server before
		return errTimeout
	}
	op.server.rtt.CompareAndSwap(0, int64(op.received.Sub(op.sent)))
	for _, c := range unknown {
		c.learn(v[0]*1e6+v[1], op.sent, op.received)
	}
	return nil
}

// send sends what is to do. A batch, and a release in the background, bring the source of each script along. What is refused
// there goes alone; so does everything where the connection takes one command at a time. A command that goes alone names its
// script by the hash, and brings the source if the server does not know that.
func (op *operation) send(n int, alone bool) error {
	if !alone && (len(op.todo) > 1 || op.aside) {
		brought := make(map[any]bool)
		lay := func(i int) (string, []any) {
			s, args := op.lay(op.todo[i])
			if args[0] = s.hash; brought[s.hash] {
				return "EVALSHA", args
			}
			args[0], brought[s.hash] = s.source, true
			return "EVAL", args
		}
		replies, err := op.pipeline(len(op.todo), lay)
		var demoted error // what a replica says
		var refused []*request
		for i, raw := range replies {
			r := op.todo[i]
			r.again = false
			if err, _ := raw.(error); replicas(err) {
				demoted, refused = err, append(refused, r)
			} else if !coded(err, "NOSCRIPT") && !coded(err, "MOVED") { // those go alone
				op.take(r, raw, n, false)
			}
		}
		moved := op.follow(demoted, n) // only now that it is known which of the others need their replicas
		for _, r := range refused {
			op.take(r, demoted, n, moved)
		}
		if errors.Is(err, conn.ErrNoSend) {
			op.todo, err = op.todo[:0], nil
		}
		return err
	}
	s, args := op.lay(op.todo[0])
	args[0] = s.hash
	raw, err := op.command("EVALSHA", args...)
	switch {
	case coded(err, "NOSCRIPT"): // the server was restarted, or its script cache flushed
		args[0] = s.source
		raw, err = op.command("EVAL", args...)
	case err == nil:
		took := int64(op.received.Sub(op.sent))
		old := cmp.Or(op.server.rtt.Load(), took)
		op.server.rtt.Store(old + (took-old)/8) // one of two that come together may be lost
	}
	if err != nil {
		if code, _ := said(err); code == "" || noRoom(err) {
			return err
		}
		raw = err
	}
	op.take(op.todo[0], raw, n, op.follow(err, n))
	return nil
}

// take takes in the reply to a script that was sent n times before. moved: it is an error, and the operation has followed it.
func (op *operation) take(r *request, raw any, n int, moved bool) {
	reply := answer(raw, op.sent)
	if reply.Now > 0 && !op.bad && op.state.Load() != abandoned { // else it may be the server before
		op.server.nodes.at(r.claim.Key).clock.learn(reply.Now, op.sent, op.received)
	}
	r.again = moved || n == 0 && reply.Err == errLate && op.received.Before(op.due) //nolint:errorlint // as answer has it
	if r.again {
		return
	}
	if reply.Verdict == Done && reply.Now == 0 && verbs[op.verb].creates {
		reply = Reply{Err: errors.New("unexpected reply to a try"), Sent: op.sent}
	}
	op.tell(r, reply)
	if (verbs[op.verb].timed || op.verb == raise) && reply.Verdict != Failed {
		r.unconfirmed = reply.Verdict == Done && r.claim.Replicas.N > 0
		op.server.scripted.Store(true)
	}
}

// confirm waits until the replicas have what this connection wrote, unless err has ended the exchange before.
func (op *operation) confirm(err error) {
	asked := err != nil
	for i := range op.requests {
		r := &op.requests[i]
		if !r.unconfirmed {
			continue
		}
		r.unconfirmed = false
		if want := r.claim.Replicas; !asked {
			var got int
			op.deadline, asked = op.end, true
			got, err = redis.Int(op.command("WAIT", want.N, max(want.Timeout.Milliseconds(), 1)))
			if err == nil && got < want.N {
				err = fmt.Errorf("%d of the %d wanted replicas confirmed within %v", got, want.N, want.Timeout)
			}
		}
		if err != nil {
			r.reply = Reply{Err: err}
		}
	}
}

// errLate is what a command gets that the server executed only after its deadline, and so not at all.
var errLate = fmt.Errorf("%w: it came too late, and nothing was done", errTimeout)

// errShort is what a command gets that is not sent, because the reply would most likely come too late.
var errShort = fmt.Errorf("%w: too little of it was left to ask", errTimeout)

// untried is an error that came before anything was sent that the server could execute.
type untried struct{ error }

func (u untried) Unwrap() error { return u.error }

// noEffect reports whether a command that ended in err certainly did nothing: it was not sent, or the
// server said no, and the scripts leave no lock behind then.
func noEffect(err error) bool {
	return errors.As(err, new(redis.Error)) || errors.As(err, new(untried)) || errors.Is(err, errLate)
}
