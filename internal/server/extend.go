package server

import (
	"context"
	"sync"
	"time"
)

// An Extension has a lock live for TTL from now on, at least.
type Extension struct {
	*Claim
	TTL time.Duration
}

// Extend extends many leases, in one round trip where that is possible, and reports each exactly once, from any
// goroutine, as soon as it is known. It returns when all are reported. Extensions are executed within the timeout of
// their claims from start on.
//
// What has to wait for something is kept apart: each node of a cluster, each wait for replicas and each timeout is an
// operation of its own, beside the others.
func (s *Server) Extend(ctx context.Context, start time.Time, batch []Extension, report func(i int, r Reply)) {
	groups := s.group(batch, report)
	var others sync.WaitGroup
	for i, g := range groups {
		if i > 0 {
			others.Go(func() { s.extend(ctx, start, g) })
		}
	}
	if len(groups) > 0 {
		s.extend(ctx, start, groups[0])
	}
	others.Wait()
}

// group divides a batch.
func (s *Server) group(batch []Extension, report func(int, Reply)) (groups []*extending) {
	type kind struct {
		node     *node
		replicas Replicas
		timeout  time.Duration
	}
	found := make(map[kind]*extending, 1)
	var last *extending
	var lastKind kind
	for i, e := range batch {
		if !e.begin(false, false, time.Now().Add(e.TTL+e.Bound())) {
			report(i, Reply{Err: errEnded})
			continue
		}
		k := kind{s.nodes.of(e.Key), e.Replicas, e.Timeout}
		if last == nil || k != lastKind {
			if last = found[k]; last == nil {
				last = &extending{report: report}
				found[k] = last
				groups = append(groups, last)
			}
			lastKind = k
		}
		last.leases = append(last.leases, lease{Extension: e, index: i})
	}
	return groups
}

func (s *Server) extend(ctx context.Context, start time.Time, g *extending) {
	first := &g.leases[0]
	op := s.begin(ctx, &first.Lock, start, first.Replicas.Timeout)
	for i := range g.leases {
		op.fresh = s.wasSilent(g.leases[i].Key) || op.fresh
	}
	reply := s.bounded(op, g)
	for i := range g.leases {
		g.tell(i, reply) // unless it was told already
	}
}

// extending is a group of leases that one connection extends.
type extending struct {
	leases []lease

	mu     sync.Mutex // held while report runs, so that nothing is reported after Extend has returned
	report func(i int, r Reply)
}

// A lease is an Extension under way.
type lease struct {
	Extension
	index    int // in the batch of the caller
	answered bool
	told     bool // guarded by extending.mu
}

// tell reports a lease, once.
func (g *extending) tell(i int, r Reply) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := &g.leases[i]; !l.told {
		l.told = true
		g.report(l.index, r)
	}
}

// answer ends the extension of a lease, as far as its claim is concerned.
func (g *extending) answer(i int, r *Reply, due time.Time) {
	if l := &g.leases[i]; !l.answered {
		l.answered = true
		l.extended(r, due)
	}
}

func (g *extending) skip(_ *operation, r Reply) {
	for i := range g.leases {
		g.answer(i, &r, time.Time{})
	}
}

func (g *extending) do(op *operation) Reply {
	reply := Reply{Err: errLate} // for those that are left
	if err := g.run(op); err != nil {
		reply.Err = err
	}
	for i := range g.leases {
		g.answer(i, &reply, op.due)
	}
	return reply
}

func (g *extending) run(op *operation) error {
	ses, err := op.open(op.key)
	if err != nil {
		return err
	}
	defer func() { ses.close() }()
	r := extendRound{extending: g, session: ses}
	if err := ses.steady(r.all); err != nil {
		return err
	}
	for _, i := range r.elsewhere {
		reply := r.alone(i)
		g.answer(i, &reply, op.due)
		op.blame(&reply)
		g.tell(i, reply)
	}
	return nil
}

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
func (r *extendRound) all() error {
	r.within(r.op.due)
	r.todo, r.elsewhere, r.extended, r.replies = r.untold(), nil, nil, nil
	// Those that were late by a clock that we had wrong get a second chance.
	for again := false; len(r.todo) > 0 && !(again && !time.Now().Before(r.op.due)); again = true {
		if err := r.send(again); err != nil {
			return err
		}
	}
	if len(r.extended) > 0 {
		return r.confirm()
	}
	return nil
}

// untold returns those of which nothing was reported yet.
func (g *extending) untold() (rest []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.leases {
		if !g.leases[i].told {
			rest = append(rest, i)
		}
	}
	return rest
}

// send sends what is to do, and keeps what is to be sent again. again: nothing is.
func (r *extendRound) send(again bool) error {
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
		l := &r.leases[todo[n]]
		return r.op.args.extend(&l.Lock, l.Extension.TTL, dues[n])
	}
	return r.evalAll(len(todo), lay, func(n int, raw any) { r.take(todo[n], raw, again) })
}

// dues translates the deadline to the clocks of the servers, and asks for those that are not known.
func (r *extendRound) dues() ([]int64, error) {
	dues := make([]int64, len(r.todo))
	var unknown []*clock
	for asked := false; ; asked = true {
		for n, i := range r.todo {
			c := r.clockOf(i)
			var known bool
			if dues[n], known = c.at(r.op.due); !known {
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
	return r.op.server.nodes.clock(r.pinned, r.leases[i].Key)
}

// take sorts one reply.
func (r *extendRound) take(i int, raw any, again bool) {
	if err, ok := raw.(error); ok && (noScript(err) || moved(err)) {
		r.elsewhere = append(r.elsewhere, i)
		return
	}
	if now, ok := raw.(int64); ok && now < 0 {
		r.clockOf(i).learn(-now, r.sent, r.received)
		if !again && r.received.Before(r.op.due) {
			r.todo = append(r.todo, i)
			return
		}
	}
	reply := parseEnd(raw, nil, r.sent)
	r.answer(i, &reply, r.op.due)
	if reply.Verdict == Done {
		r.op.server.scripted.Store(true)
		if r.leases[i].Replicas.N > 0 {
			r.extended, r.replies = append(r.extended, i), append(r.replies, reply)
			return
		}
	}
	r.tell(i, reply)
}

// confirm waits for the replicas of what was extended.
func (r *extendRound) confirm() error {
	err := r.waitReplicas(r.leases[0].Replicas)
	if r.severed(err) {
		return err
	}
	for n, i := range r.extended {
		if err != nil {
			r.replies[n] = Reply{Err: err, Sent: r.replies[n].Sent}
		}
		r.tell(i, r.replies[n])
	}
	r.within(r.op.due)
	return nil
}

// alone extends one lease by itself, at the node that serves it now.
func (r *extendRound) alone(i int) Reply {
	l := &r.leases[i]
	if err := r.moveTo(l.Key); err != nil {
		return Reply{Err: err}
	}
	clock := r.clockOf(i)
	for again := false; ; again = true {
		due, known := clock.at(r.op.due)
		if !known || r.pinned && !again { // it may be another node's clock
			if err := r.askTime(clock); err != nil {
				return Reply{Err: err}
			}
			due, _ = clock.at(r.op.due)
		}
		raw, err := r.eval(r.op.args.extend(&l.Lock, l.Extension.TTL, due))
		if !again && r.follow(err) {
			clock.forget()
			continue
		}
		reply := parseEnd(raw, err, r.sent)
		if reply.Verdict == Done && l.Replicas.N > 0 {
			if err := r.waitReplicas(l.Replicas); err != nil {
				reply = Reply{Err: err, Sent: r.sent}
			}
			r.within(r.op.due)
		}
		return reply
	}
}
