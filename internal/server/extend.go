package server

import (
	"sync"
	"time"
)

// Extend extends many leases in one round trip and returns a reply for each. All of them must
// have the Timeout and the replica terms of the first.
func (s *Server) Extend(batch []*Request) []Reply {
	replies := make([]Reply, len(batch))
	if s.cluster.Load() {
		// A connection serves one key there. If they took turns, a node that hangs would cost the leases
		// on all others.
		var each sync.WaitGroup
		for i := range batch {
			each.Go(func() { s.extendSome(batch[i:i+1], replies[i:i+1]) })
		}
		each.Wait()
		return replies
	}
	for done := 0; done < len(batch); {
		done += s.extendSome(batch[done:], replies[done:])
	}
	return replies
}

// extendSome extends as many leases from the front of batch as one connection can, and returns
// how many it did.
func (s *Server) extendSome(batch []*Request, replies []Reply) int {
	first := batch[0]
	deadline := time.Now().Add(first.Timeout)
	ses, err := s.open(deadline.Add(first.ReplicaTimeout), first.Key)
	if err != nil {
		return fail(replies, err)
	}
	defer ses.close()
	if ses.pinned {
		batch, replies = batch[:1], replies[:1]
	}
	clock := s.clocks.of(ses, first.Key)
	if _, known := clock.at(deadline); !known {
		if err := ses.askTime(clock); err != nil {
			return fail(replies, err)
		}
	}
	if late := ses.extendOnce(batch, replies, clock, deadline); late {
		// Our idea of the server's clock was off, and has been corrected.
		ses.extendOnce(batch, replies, clock, deadline)
	}
	if first.Replicas > 0 {
		if err := ses.waitReplicas(first); err != nil {
			return fail(replies, err)
		}
	}
	return len(batch)
}

// extendOnce sends one pipeline. late reports whether the server found it too late.
func (ses session) extendOnce(batch []*Request, replies []Reply, clock *clock, deadline time.Time) (late bool) {
	due, _ := clock.at(deadline)
	commands := make([]command, len(batch))
	for i, r := range batch {
		args := []any{nil, 1, r.Key, r.Token, r.TTL.Milliseconds(), due}
		if r.Fencing {
			args = []any{nil, 2, r.Key, FenceKey(r.Key), r.Token, r.TTL.Milliseconds(), due, (r.TTL + fenceTTL).Milliseconds()}
		}
		commands[i] = command{extendScript, args}
	}
	sent := time.Now()
	raw, err := ses.evalAll(commands)
	if err != nil {
		fail(replies, err)
		return false
	}
	received := time.Now()
	for i := range raw {
		replies[i] = parseEnd(raw[i], nil, sent)
		if wrongType(raw[i]) { // whatever is there now, it is not our token
			replies[i] = Reply{Verdict: Taken, Sent: sent}
		}
		if now, ok := raw[i].(int64); ok && now < -1 && !late {
			clock.learn(-now, sent, received)
			late = received.Before(deadline)
		}
	}
	return late
}

// fail gives every reply the same error and returns their number.
func fail(replies []Reply, err error) int {
	for i := range replies {
		replies[i] = Reply{Err: err}
	}
	return len(replies)
}
