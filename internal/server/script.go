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

// A request is one script for one claim, and its reply.
type request struct {
	claim *Claim
	ttl   time.Duration // the TTL that it asks for; 0: none
	place int           // in the batch of its caller
	reply Reply

	told        atomic.Bool // reply is set; after that only confirm may change it
	again       bool        // it has to be sent once more
	unconfirmed bool        // it waits for replicas
}

// scripts runs the script of each request that has no reply yet. All scripts are sent from here. A request that the first
// exchange did not settle is sent alone, in a cluster to the node of its key.
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
			op.server.nodes.at(r.claim.Key).clock.forget(time.Now()) // it may be the clock of another node
			elsewhere := op.server.nodes.at(op.key).node != op.server.nodes.at(r.claim.Key).node
			op.key = r.claim.Key
			if op.conn == nil || elsewhere {
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

// set is a try by SET NX PX. It costs the server less than the script, and tells less: not who holds the lock, nor whether the
// key holds a lock at all. So the script follows if the SET does not take the lock, can't be sent, or is refused alone, as by
// Redis 5.0 with too few replicas. A repeat over another connection is a script: that finds its token.
//
// SET can't carry a deadline. Instead, when the deadline passes without a reply, a release is written behind the SET on the
// same connection. Whenever the server executes the SET, after a hang or a cut, it executes the release next.
func (op *operation) set() error {
	op.deadline, op.undoes = op.due, true
	r := &op.requests[0]
	raw, err := op.command("SET", op.args.plain(&r.claim.Lock)...)
	op.undoes = false
	switch {
	case err == nil && raw == any("OK"):
		op.tell(r, Reply{Verdict: Done, Sent: op.sent})
		r.unconfirmed = r.claim.Replicas.N > 0
		op.confirm(nil)
		return nil
	case err == nil, coded(err, "NOREPLICAS"), errors.Is(err, conn.ErrNoSend), op.follow(err, 0):
		return op.scripts()
	}
	return err
}

// maxMoves is how often a command follows the answer that its slot is at another node. After a failover the nodes hear of it
// one by one. A pool may go back to the answer of a node that has not heard of it.
const maxMoves = 3

// exchange runs the scripts of op.todo, and waits for the replicas to confirm them. A script that the server refused as
// late, because our estimate of its clock was wrong, is sent once more. A command that a replica refuses, TIME included, is
// sent to the primary. In a cluster a script that is sent alone is sent to where its key has moved.
func (op *operation) exchange(alone bool) (err error) {
	if op.requests[0].claim.Replicas.N > 0 { // all requests want the same
		defer func() { op.confirm(err) }()
	}
	for n := 0; len(op.todo) > 0; n++ {
		if verbs[op.verb].timed {
			op.deadline = op.due
			if err := op.learnClocks(); err != nil {
				if op.follow(err, n) {
					continue
				}
				return untried{err}
			}
		}
		if err := op.send(n, alone); err != nil {
			since := time.Now()
			if timedOut(err) {
				since = op.began
			}
			for _, r := range op.todo {
				op.server.nodes.at(r.claim.Key).clock.forget(since) // the next answer may be another server's, after a failover
			}
			return err
		}
		op.todo = slices.DeleteFunc(op.todo, func(r *request) bool { return !r.again })
	}
	return nil
}

// learnClocks asks the server for its time, if that is unknown. One answer does for all keys of an operation: it has one node.
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
	if op.state.Load() == abandoned { // the answer may be that of a former server
		return errTimeout
	}
	op.server.rtt.CompareAndSwap(0, int64(op.received.Sub(op.sent)))
	for _, c := range unknown {
		c.learn(v[0]*1e6+v[1], op.sent, op.received)
	}
	return nil
}

// send sends the scripts of op.todo. A batch, or a release in the background, carries the source of each script. A script that
// is refused there is sent alone later; so are all scripts if the connection takes one command at a time. A script that is
// sent alone is sent as its hash, and as its source if the server does not know the hash.
func (op *operation) send(n int, alone bool) error {
	if !alone && (len(op.todo) > 1 || op.aside) {
		brought := make(map[any]bool)
		lay := func(i int) (string, []any) {
			s, args := op.lay(op.todo[i])
			if brought[s.hash] {
				args[0] = s.hash
				return "EVALSHA", args
			}
			args[0], brought[s.hash] = s.source, true
			return "EVAL", args
		}
		replies, err := op.pipeline(len(op.todo), lay)
		var demoted error // the refusal of a replica
		var refused []*request
		for i, raw := range replies {
			r := op.todo[i]
			r.again = false
			switch err, _ := raw.(error); {
			case replicas(err):
				demoted, refused = err, append(refused, r)
			case coded(err, "NOSCRIPT"): // a SCRIPT FLUSH came between two parts of the batch
				r.again = n < maxMoves
			case !coded(err, "MOVED"): // else it is sent alone later
				op.take(r, raw, n)
			}
		}
		moved := demoted != nil && op.follow(demoted, n) // only now: follow has to know which of the others wait for replicas
		for _, r := range refused {
			if r.again = moved; !moved {
				op.take(r, demoted, n)
			}
		}
		if errors.Is(err, conn.ErrNoSend) {
			op.todo, err = op.todo[:0], nil
		}
		return err
	}
	r := op.todo[0]
	s, args := op.lay(r)
	args[0] = s.hash
	raw, err := op.command("EVALSHA", args...)
	switch {
	case coded(err, "NOSCRIPT"): // the server was restarted, or its script cache flushed
		args[0] = s.source
		raw, err = op.command("EVAL", args...)
	case err == nil:
		took := int64(op.received.Sub(op.sent))
		old := cmp.Or(op.server.rtt.Load(), took)
		op.server.rtt.Store(old + (took-old)/8) // of two updates at the same time one may be lost
	}
	if err != nil {
		if code, _ := said(err); code == "" || turnedAway(err) {
			return err
		}
		if r.again = op.follow(err, n); r.again {
			return nil
		}
		raw = err
	}
	op.take(r, raw, n)
	return nil
}

// take takes in the reply to a script that was sent n times before.
func (op *operation) take(r *request, raw any, n int) {
	reply := answer(raw, op.sent)
	if reply.Now > 0 && !op.bad && op.state.Load() != abandoned { // else it may be the clock of a former server
		op.server.nodes.at(r.claim.Key).clock.learn(reply.Now, op.sent, op.received)
	}
	r.again = n == 0 && reply.Err == errLate && op.received.Before(op.due) //nolint:errorlint // as answer has it
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

// confirm waits until the replicas have what this connection wrote, unless err has ended the exchange.
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

// errLate is the error of a command that the server got to only after the deadline: the command did nothing.
var errLate = fmt.Errorf("%w: it came too late, and nothing was done", errTimeout)

// errShort is the error of a command that was not sent, because the reply would most likely come too late.
var errShort = fmt.Errorf("%w: too little of it was left to ask", errTimeout)

// untried is an error that came before anything was sent that the server could execute.
type untried struct{ error }

func (u untried) Unwrap() error { return u.error }

// noEffect reports whether a command that ended in err certainly did nothing: it was not sent, or the server refused it. A
// script that fails leaves no lock behind.
func noEffect(err error) bool {
	return errors.As(err, new(redis.Error)) || errors.As(err, new(untried)) || errors.Is(err, errLate)
}
