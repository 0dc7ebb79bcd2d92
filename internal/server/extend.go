package server

import (
	"context"
	"slices"
	"sync"
	"time"
)

// An Extension asks that a lock live for TTL from now on, at least.
type Extension struct {
	*Claim
	TTL time.Duration
}

// Extend extends many leases, in one round trip if possible. It calls report exactly once for each lease, from any goroutine,
// as soon as the outcome is known, and returns when all are reported. An extension is executed within the timeout of its
// claim, counted from start. Leases that differ in node, replicas or timeout go in different operations, so that none waits
// for another. If connections take one command at a time, the batch goes in maxStuck parts. A lease that failed before, and
// may fail again, is one that ends first. So such leases are together, in the first parts.
func (s *Server) Extend(ctx context.Context, start time.Time, batch []Extension, report func(i int, r Reply)) {
	type group struct {
		node     *node
		replicas Replicas
		timeout  time.Duration
		part     int
	}
	var order []group // a fixed order, so that a simulation can be repeated
	groups := make(map[group][]request, 1)
	for i, e := range batch {
		if !e.beginCommand(nil, time.Now().Add(e.TTL+e.Bound())) {
			report(i, Reply{Err: errEnded})
			continue
		}
		k := group{s.nodes.at(e.Key).node, e.Replicas, e.Timeout, 0}
		if s.oneByOne.Load() {
			k.part = i * maxStuck / len(batch)
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], request{claim: e.Claim, ttl: e.TTL, place: i})
	}
	var others sync.WaitGroup
	defer others.Wait()
	for n, k := range slices.Backward(order) {
		run := func() {
			op := s.begin(ctx, extend, groups[k][0].claim, start, k.replicas.Timeout)
			op.requests, op.report = append(op.requests[:0], groups[k]...), report
			op.do()
		}
		if n > 0 {
			others.Go(run)
		} else {
			run()
		}
	}
}
