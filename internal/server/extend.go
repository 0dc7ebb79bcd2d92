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
	type apart struct {
		node     *node
		replicas Replicas
		timeout  time.Duration
	}
	var groups []*extending
	found := make(map[apart]*extending, 1)
	for i, e := range batch {
		if !e.begin(false, false, time.Now().Add(e.TTL+e.Bound())) {
			report(i, Reply{Err: errEnded})
			continue
		}
		k := apart{s.nodes.of(e.Key), e.Replicas, e.Timeout}
		g := found[k]
		if g == nil {
			g = &extending{report: report}
			found[k], groups = g, append(groups, g)
		}
		g.claims, g.leases = append(g.claims, e.Claim), append(g.leases, lease{Extension: e, place: i})
	}
	var others sync.WaitGroup
	defer others.Wait()
	for i := len(groups) - 1; i > 0; i-- {
		others.Go(func() { s.extend(ctx, start, groups[i]) })
	}
	if len(groups) > 0 {
		s.extend(ctx, start, groups[0])
	}
}

// extending is a group of leases that one operation extends.
type extending struct {
	claims []*Claim
	leases []lease

	mu     sync.Mutex // held while report runs, so that nothing is reported after Extend has returned
	report func(i int, r Reply)
}

// A lease is an Extension under way.
type lease struct {
	Extension
	place    int  // in the batch of the caller
	answered bool // its claim knows what came of it
	told     bool // guarded by extending.mu
}

func (s *Server) extend(ctx context.Context, start time.Time, g *extending) {
	l := &g.claims[0].Lock
	op := s.begin(ctx, l, start, l.Replicas.Timeout, g.claims...)
	op.many, op.timed = true, true
	op.lay = func(op *operation, i int) (script, []any) {
		return op.args.extend(&g.leases[i].Extension, op.dueAt(i))
	}
	op.speak, op.took, op.told = (*operation).scripts, g.took, g.tell
	reply := op.do()
	for i := range g.leases {
		g.tell(i, reply) // unless it was told already
	}
}

// took ends the extension of a lease, as far as its claim is concerned.
func (g *extending) took(op *operation, i int, r *Reply) {
	if l := &g.leases[i]; !l.answered {
		l.answered = true
		l.extended(r, op.due)
	}
}

// tell reports a lease, once.
func (g *extending) tell(i int, r Reply) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := &g.leases[i]; !l.told {
		l.told = true
		g.report(l.place, r)
	}
}
