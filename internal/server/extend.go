package server

import (
	"context"
	"slices"
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
	type kind struct {
		node     *node
		replicas Replicas
		timeout  time.Duration
	}
	type group struct {
		claims []*Claim
		places []int // in the batch
	}
	var groups []*group // in order, as a simulation repeats it
	found := make(map[kind]*group, 1)
	for i, e := range batch {
		if !e.begin(false, false, time.Now().Add(e.TTL+e.Bound())) {
			report(i, Reply{Err: errEnded})
			continue
		}
		k := kind{s.nodes.of(e.Key), e.Replicas, e.Timeout}
		g := found[k]
		if g == nil {
			g = new(group)
			found[k], groups = g, append(groups, g)
		}
		g.claims, g.places = append(g.claims, e.Claim), append(g.places, i)
	}
	var others sync.WaitGroup
	defer others.Wait()
	for n, g := range slices.Backward(groups) {
		extend := func() {
			l := &g.claims[0].Lock
			op := s.begin(ctx, l, start, l.Replicas.Timeout, g.claims...)
			op.speak, op.took, op.timed = (*operation).scripts, (*operation).tookExtension, true
			op.lay = func(op *operation, i int) (script, []any) {
				return op.args.extend(&batch[g.places[i]], op.dueAt(i))
			}
			op.report = func(i int, r Reply) { report(g.places[i], r) }
			op.do()
		}
		if n > 0 {
			others.Go(extend)
		} else {
			extend()
		}
	}
}

func (op *operation) tookExtension(i int, r *Reply) { op.claims[i].extended(r, op.due) }
