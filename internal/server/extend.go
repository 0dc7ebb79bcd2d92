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
	for i, e := range batch {
		if !e.begin(false, false, time.Now().Add(e.TTL+e.Bound())) {
			report(i, Reply{Err: errEnded})
			continue
		}
		k := kind{s.nodes.of(e.Key), e.Replicas, e.Timeout}
		g := found[k]
		if g == nil {
			g = &extending{report: report}
			found[k], groups = g, append(groups, g)
		}
		g.leases = append(g.leases, lease{Extension: e, index: i})
	}
	return groups
}

func (s *Server) extend(ctx context.Context, start time.Time, g *extending) {
	first := &g.leases[0]
	reply := s.bounded(s.begin(ctx, &first.Lock, start, first.Replicas.Timeout), g)
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

func (g *extending) keys(each func(string)) {
	for i := range g.leases {
		each(g.leases[i].Key)
	}
}

func (g *extending) took(op *operation, r *Reply) {
	for i := range g.leases {
		g.answer(i, r, op.due)
	}
}

// ask extends what was not told yet.
func (g *extending) ask(ses *session) Reply {
	g.mu.Lock()
	r := extendRound{extending: g, session: ses}
	for i := range g.leases {
		if !g.leases[i].told {
			r.todo = append(r.todo, i)
		}
	}
	g.mu.Unlock()
	if err := r.run(); err != nil {
		return Reply{Err: err}
	}
	for _, i := range r.elsewhere {
		key := g.leases[i].Key
		ses.clock(key).forget() // it may be another node's
		err := ses.moveTo(key)
		if err == nil {
			r.todo = []int{i}
			err = r.run()
		}
		if err != nil {
			reply := Reply{Err: err}
			g.answer(i, &reply, ses.op.due)
			g.tell(i, reply)
		}
	}
	return Reply{Err: errLate} // for those that are left
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

// run extends what is to do. What was late by a clock that we had wrong, or is at another node, gets a second chance.
func (r *extendRound) run() error {
	r.within(r.op.due)
	r.extended, r.replies = nil, nil
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

// send sends what is to do, and keeps what is to be sent again. again: nothing is.
func (r *extendRound) send(again bool) error {
	dues, err := r.dues()
	if err != nil {
		return err
	}
	if r.op.left() {
		return untried{errTimeout}
	}
	todo := r.todo
	r.todo = nil
	lay := func(n int) (script, []any) {
		l := &r.leases[todo[n]]
		return r.op.args.extend(&l.Extension, dues[n])
	}
	return r.evalAll(len(todo), lay, func(n int, raw any) {
		i := todo[n]
		if err, ok := raw.(error); ok && elsewhere(err) {
			switch {
			case len(todo) > 1:
				r.elsewhere = append(r.elsewhere, i)
				return
			case !again && r.follow(err):
				r.todo = append(r.todo, i)
				return
			}
		}
		r.take(i, raw, again)
	})
}

// dues translates the deadline to the clocks of the servers, and asks for those that are not known.
func (r *extendRound) dues() ([]int64, error) {
	dues := make([]int64, len(r.todo))
	for asked := false; ; asked = true {
		var unknown []*clock
		for n, i := range r.todo {
			c := r.clock(r.leases[i].Key)
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

// take takes in one reply.
func (r *extendRound) take(i int, raw any, again bool) {
	reply, now := answer(raw, nil, r.sent)
	if now < 0 {
		r.clock(r.leases[i].Key).learn(-now, r.sent, r.received)
		if !again && r.received.Before(r.op.due) {
			r.todo = append(r.todo, i)
			return
		}
	}
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
	return nil
}
