package server

import (
	"context"
	"sync"
	"time"
)

// Extend extends many leases, in one round trip where that is possible, and reports each exactly once, from any
// goroutine, as soon as it is known. It returns when all are reported.
//
// What has to wait for something is kept apart: each node of a cluster, each wait for replicas and each timeout is an
// operation of its own, beside the others.
func (s *Server) Extend(ctx context.Context, batch []*Extension, report func(i int, r Reply)) {
	groups := s.group(batch, report)
	var others sync.WaitGroup
	for i, g := range groups {
		if i > 0 {
			others.Go(func() { s.extend(ctx, g) })
		}
	}
	if len(groups) > 0 {
		s.extend(ctx, groups[0])
	}
	others.Wait()
}

// group divides a batch.
func (s *Server) group(batch []*Extension, report func(int, Reply)) (groups []*extending) {
	type kind struct {
		node     *node
		replicas Replicas
		timeout  time.Duration
	}
	found := make(map[kind]*extending, 1)
	var last *extending
	var lastKind kind
	for i, e := range batch {
		k := kind{s.nodes.of(e.Key), e.Replicas, e.Timeout}
		if last == nil || k != lastKind {
			if last = found[k]; last == nil {
				last = &extending{report: report}
				found[k] = last
				groups = append(groups, last)
			}
			lastKind = k
		}
		last.batch = append(last.batch, *e)
		last.index = append(last.index, i)
	}
	for _, g := range groups {
		g.executed, g.known = make([]bool, len(g.batch)), make([]bool, len(g.batch))
	}
	return groups
}

func (s *Server) extend(ctx context.Context, g *extending) {
	first := &g.batch[0]
	op := s.begin(ctx, &first.Lock, time.Time{}, first.Replicas.Timeout)
	for i := range g.batch {
		op.fresh = s.wasSilent(g.batch[i].Key) || op.fresh
	}
	limit, limited := ctx.Deadline()
	for i := range g.batch {
		due := g.batch[i].Deadline
		if due.IsZero() {
			due = op.due
		}
		if limited && limit.Before(due) {
			due = limit
		}
		g.due = append(g.due, due)
	}
	g.start = op.start
	reply := s.bounded(op, g)
	for i := range g.batch {
		g.tell(i, reply) // unless it was told already
	}
}

// extending is a group of leases that one connection extends.
type extending struct {
	batch []Extension
	index []int // in the batch of the caller
	start time.Time
	due   []time.Time // when they must not be executed any more

	mu       sync.Mutex // held while report runs, so that nothing is reported after Extend has returned
	executed []bool     // the server has said so
	known    []bool
	report   func(i int, r Reply)
}

// heard notes that a lease is extended on the server, so its extension can't be executed later.
func (g *extending) heard(i int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.executed[i] = true
}

// untold returns those of which nothing was reported yet.
func (g *extending) untold() (rest []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, known := range g.known {
		if !known {
			rest = append(rest, i)
		}
	}
	return rest
}

// tell reports a lease, once.
func (g *extending) tell(i int, r Reply) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known[i] {
		return
	}
	g.known[i] = true
	switch {
	case g.executed[i]:
		r.Open = time.Time{}
	case !r.Open.IsZero():
		r.Open = g.due[i]
	}
	g.report(g.index[i], r)
}

// unheard is the reply for leases whose extension has none from the server.
func (g *extending) unheard(err error, mayRun bool) Reply {
	r := Reply{Err: err}
	if mayRun && !refused(err) {
		r.Sent, r.Open = g.start, g.start
	}
	return r
}

func (g *extending) abandon(_ *operation, err error, mayRun bool) Reply {
	return g.unheard(err, mayRun)
}
func (*extending) late(*operation) {}

func (g *extending) do(op *operation) Reply {
	ses, err := op.open(g.batch[0].Key)
	if err != nil {
		return Reply{Err: err}
	}
	defer func() { ses.close() }()
	r := extendRound{extending: g, session: ses}
	err = ses.steady(func() error { return r.all(op.due) })
	if err != nil {
		return g.unheard(err, op.state.Load() != begun)
	}
	for _, i := range r.elsewhere {
		reply := r.alone(i)
		op.blame(&reply)
		g.tell(i, reply)
	}
	return Reply{Err: errLate} // for those that are left
}
