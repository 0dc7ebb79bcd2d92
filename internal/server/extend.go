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
		g.known = make([]bool, len(g.batch))
	}
	return groups
}

func (s *Server) extend(ctx context.Context, g *extending) {
	first := &g.batch[0]
	op := s.begin(ctx, &first.Lock, first.Start, first.Replicas.Timeout)
	reply := s.bounded(op, g)
	for i := range g.batch {
		g.tell(i, reply) // unless it was told already
	}
}

// extending is a group of leases that one connection extends.
type extending struct {
	batch []Extension
	index []int // in the batch of the caller

	mu     sync.Mutex // held while report runs, so that nothing is reported after Extend has returned
	known  []bool
	report func(i int, r Reply)
}

// tell reports a lease, once.
func (g *extending) tell(i int, r Reply) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known[i] {
		return
	}
	g.known[i] = true
	g.report(g.index[i], r)
}

func (*extending) abandon(_ *operation, err error, _ bool) Reply { return Reply{Err: err} }
func (*extending) late(*operation)                               {}

func (g *extending) do(op *operation) Reply {
	ses, err := op.open(g.batch[0].Key)
	if err != nil {
		return Reply{Err: err}
	}
	defer func() { ses.close() }()
	ses.within(op.due)
	r := extendRound{extending: g, session: ses}
	for i := range g.batch {
		r.todo = append(r.todo, i)
	}
	// Those that were late by a clock that we had wrong get a second chance.
	for again := false; len(r.todo) > 0 && !(again && !time.Now().Before(op.due)); again = true {
		if err = r.run(again); err != nil {
			break
		}
	}
	if err == nil && len(r.extended) > 0 {
		err = r.confirm()
	}
	if err != nil {
		return Reply{Err: err}
	}
	for _, i := range r.elsewhere {
		reply := r.alone(i)
		op.blame(&reply)
		g.tell(i, reply)
	}
	return Reply{Err: errLate} // for those that are left
}
