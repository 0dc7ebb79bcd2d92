package server

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// A round is what becomes of the scripts of an operation in one round trip.
type round struct {
	todo        []int // claims whose scripts are sent next
	again       []int // those whose scripts have to be sent once more
	unconfirmed []int // those that wait for replicas
}

// scripts runs the script of each claim that has no reply yet. This is where all scripts of claims are sent: tries,
// extensions and releases. What the first round trip could not settle goes alone, to where it has to.
func (op *operation) scripts() error {
	op.round = round{todo: op.todo[:0], again: op.again[:0]}
	for i := range op.replies {
		if op.replies[i].none() {
			op.todo = append(op.todo, i)
		}
	}
	if err := op.runRound(); err != nil {
		return err
	}
	for i := range op.replies {
		if !op.replies[i].none() {
			continue
		}
		key := op.claims[i].Key
		if op.pinned {
			op.clock(key).forget() // it may be another node's
		}
		err := op.moveTo(key)
		if err == nil {
			op.todo = append(op.todo[:0], i)
			err = op.runRound()
		}
		if err != nil {
			op.tell(i, Reply{Err: err})
		}
	}
	return nil
}

// runRound runs the scripts that are to do, and has the replicas confirm them.
func (op *operation) runRound() error {
	op.unconfirmed = op.unconfirmed[:0]
	err := op.sendAll()
	if len(op.unconfirmed) > 0 {
		op.confirm(err)
	}
	return err
}

// sendAll sends what is to do. One that came too late by a clock that we had wrong is sent once more; and so is one that goes
// alone, if another node of the cluster serves its key now.
func (op *operation) sendAll() error {
	for first := true; len(op.todo) > 0; first = false {
		if op.timed {
			op.deadline = op.due
			if err := op.learnClocks(); err != nil {
				return untried{err}
			}
			if op.state.Load() == abandoned {
				return untried{errTimeout}
			}
		}
		op.again = op.again[:0]
		if err := op.send(first); err != nil {
			for _, i := range op.todo {
				op.clock(op.claims[i].Key).forget() // who answers next may be another server, after a failover
			}
			return err
		}
		op.todo, op.again = op.again, op.todo
	}
	return nil
}

// learnClocks asks the server for its time, if that is not known. It is the only one that is asked: one node, one clock.
func (op *operation) learnClocks() error {
	var unknown []*clock
	for _, i := range op.todo {
		c := op.clock(op.claims[i].Key)
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
	for _, c := range unknown {
		c.learn(v[0]*1e6+v[1], op.sent, op.received)
	}
	return nil
}

// send sends what is to do. A script that is alone can be sent again where the server does not know it.
func (op *operation) send(first bool) error {
	if len(op.todo) == 1 {
		raw, err := op.eval(op.lay(op, op.todo[0]))
		var said redis.Error
		if err != nil && !errors.As(err, &said) {
			return err
		} else if err != nil {
			raw = err
		}
		op.take(op.todo[0], raw, first)
		return nil
	}
	lay := func(n int) (string, []any) {
		s, args := op.lay(op, op.todo[n])
		args[0] = s.hash
		return "EVALSHA", args
	}
	return op.pipeline(len(op.todo), lay, func(n int, raw any) {
		if err, _ := raw.(error); !coded(err, "NOSCRIPT") && !coded(err, "MOVED") { // else it goes alone
			op.take(op.todo[n], raw, first)
		}
	})
}

// dueAt is the deadline of claim i on the server's clock.
func (op *operation) dueAt(i int) int64 {
	due, _ := op.clock(op.claims[i].Key).at(op.due)
	return due
}

// take takes in one reply. first: the script may be sent once more.
func (op *operation) take(i int, raw any, first bool) {
	if err, ok := raw.(error); ok && op.timed && first && op.follow(err) {
		op.again = append(op.again, i)
		return
	}
	reply, now := answer(raw, op.sent)
	if now != 0 {
		op.clock(op.claims[i].Key).learn(max(now, -now), op.sent, op.received)
	}
	if now < 0 && first && op.received.Before(op.due) {
		op.again = append(op.again, i)
		return
	}
	if reply.Verdict == Done && now == 0 && op.creates {
		reply = Reply{Err: errors.New("unexpected reply to a try"), Sent: op.sent}
	}
	op.tell(i, reply)
	switch {
	case !op.timed || reply.Verdict == Failed:
		return
	case reply.Verdict == Done && op.claims[i].Replicas.N > 0:
		op.unconfirmed = append(op.unconfirmed, i)
	}
	op.server.scripted.Store(true)
}

// confirm waits until the replicas have what this connection wrote, unless err has ended the round before.
func (op *operation) confirm(err error) {
	if want := op.claims[0].Replicas; err == nil {
		var got int
		op.deadline = op.end
		got, err = redis.Int(op.command("WAIT", want.N, max(want.Timeout.Milliseconds(), 1)))
		if err == nil && got < want.N {
			err = replicaError{got, want}
		}
	}
	if err != nil {
		for _, i := range op.unconfirmed {
			r := &op.replies[i]
			*r = Reply{Err: err, Sent: r.Sent, There: true, Twice: r.Twice}
		}
	}
}

// errLate is what a command gets that the server executed only after its deadline, and so not at all.
var errLate = fmt.Errorf("%w: it came too late, and nothing was done", errTimeout)

// untried is an error that came before anything was sent that the server could execute.
type untried struct{ error }

func (u untried) Unwrap() error { return u.error }

// refused reports whether a command that ended in err certainly did nothing: it was not sent, or the
// server said no, and the scripts leave no lock behind then.
func refused(err error) bool {
	var e redis.Error
	var u untried
	return errors.As(err, &e) || errors.As(err, &u) || errors.Is(err, errLate)
}

// replicaError says that too few replicas have what was written.
type replicaError struct {
	got  int
	want Replicas
}

func (e replicaError) Error() string {
	return fmt.Sprintf("%d of the %d wanted replicas confirmed within %v", e.got, e.want.N, e.want.Timeout)
}
