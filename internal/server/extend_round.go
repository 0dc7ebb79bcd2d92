package server

import "time"

// An extendRound is what becomes of a group of extensions over one connection.
type extendRound struct {
	*extending
	*session
	todo      []int // to send
	elsewhere []int // that this connection can't extend
	extended  []int // that wait for replicas
	replies   []Reply
}

// all extends what this connection can, of what was not told yet.
func (r *extendRound) all(due time.Time) (err error) {
	r.within(due)
	r.todo, r.elsewhere, r.extended, r.replies = r.untold(), nil, nil, nil
	// Those that were late by a clock that we had wrong get a second chance.
	for again := false; len(r.todo) > 0 && !(again && !time.Now().Before(due)); again = true {
		if err = r.run(again); err != nil {
			return err
		}
	}
	if len(r.extended) > 0 {
		return r.confirm()
	}
	return nil
}

// run sends what is to do, and keeps what is to be sent again. again: nothing is.
func (r *extendRound) run(again bool) error {
	dues, err := r.dues()
	if err != nil {
		return err
	}
	if !r.op.sending() {
		return untried{errTimeout}
	}
	todo := r.todo
	r.todo = nil
	lay := func(n int) (script, []any) {
		return extendScript, r.op.args.extend(&r.batch[todo[n]], dues[n])
	}
	return r.evalAll(len(todo), lay, func(n int, raw any) { r.take(todo[n], raw, again) })
}

// dues translates the deadlines of what is to do to the clocks of the servers, and asks for those that are not known.
func (r *extendRound) dues() ([]int64, error) {
	dues := make([]int64, len(r.todo))
	var unknown []*clock
	for asked := false; ; asked = true {
		for n, i := range r.todo {
			c := r.clockOf(i)
			var known bool
			if dues[n], known = c.at(r.due[i]); !known {
				unknown = append(unknown, c)
			}
		}
		if unknown == nil || asked {
			return dues, nil
		}
		if err := r.askTime(unknown...); err != nil { // one node, one clock
			return nil, untried{err}
		}
	}
}

func (r *extendRound) clockOf(i int) *clock {
	return r.op.server.nodes.clock(r.pinned, r.batch[i].Key)
}

// take sorts one reply.
func (r *extendRound) take(i int, raw any, again bool) {
	if err, ok := raw.(error); ok && (noScript(err) || moved(err)) {
		r.elsewhere = append(r.elsewhere, i)
		return
	}
	if now, ok := raw.(int64); ok && now < -1 {
		r.clockOf(i).learn(-now, r.sent, r.received)
		if !again && r.received.Before(r.due[i]) {
			r.todo = append(r.todo, i)
			return
		}
	}
	reply := parseEnd(raw, nil, r.sent)
	if reply.Verdict == Done {
		r.op.server.scripted.Store(true)
		if r.batch[i].Replicas.N > 0 {
			r.heard(i)
			r.extended, r.replies = append(r.extended, i), append(r.replies, reply)
			return
		}
	}
	r.tell(i, reply)
}

// confirm waits for the replicas of what was extended.
func (r *extendRound) confirm() error {
	err := r.waitReplicas(r.batch[0].Replicas)
	if r.severed(err) {
		return err
	}
	for n, i := range r.extended {
		if err != nil {
			r.replies[n] = Reply{Err: err, Sent: r.replies[n].Sent}
		}
		r.tell(i, r.replies[n])
	}
	r.extended, r.replies = nil, nil
	r.within(r.op.due)
	return nil
}

// alone extends one lease by itself, at the node that serves it now.
func (r *extendRound) alone(i int) Reply {
	e, at := &r.batch[i], r.due[i]
	if err := r.moveTo(e.Key); err != nil {
		return Reply{Err: err}
	}
	clock := r.op.server.nodes.clock(r.pinned, e.Key)
	for again := false; ; again = true {
		due, known := clock.at(at)
		if !known || r.pinned && !again { // it may be another node's clock
			if err := r.askTime(clock); err != nil {
				return Reply{Err: err}
			}
			due, _ = clock.at(at)
		}
		raw, err := r.eval(extendScript, r.op.args.extend(e, due))
		if !again && r.follow(err) {
			clock.forget()
			continue
		}
		reply := parseEnd(raw, err, r.sent)
		if reply.Verdict == Failed && !refused(reply.Err) {
			reply.Open = at
		}
		if reply.Verdict == Done && e.Replicas.N > 0 {
			r.heard(i)
			if err := r.waitReplicas(e.Replicas); err != nil {
				reply = Reply{Err: err, Sent: r.sent}
			}
			r.within(r.op.due)
		}
		return reply
	}
}
