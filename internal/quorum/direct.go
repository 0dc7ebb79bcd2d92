package quorum

import (
	"context"

	"github.com/redimutex/redimutex/internal/server"
)

// direct reports whether a single server can be asked on the caller's own goroutine, because nothing
// can go on for longer than the operation may take. A round, with its second goroutine, takes
// half as long again on a fast network; what it decides is the same.
func (q *Quorum) direct(ctx context.Context) bool {
	return len(q.nodes) == 1 && ctx.Done() == nil && q.nodes[0].Direct()
}

func (q *Quorum) acquireDirect(req *server.Request) (Grant, error) {
	reply := q.nodes[0].Acquire(req)
	q.nodes[0].count(reply)
	if reply.Verdict != server.Done {
		return Grant{}, one(reply).lost()
	}
	g := Grant{Until: reply.Sent.Add(req.TTL - Drift(req.TTL)), Fence: reply.Fence, Timely: reply.Fence == reply.Now}
	if err := g.fresh(req); err != nil {
		q.Sweep(req, g)
		return Grant{}, err
	}
	return g, nil
}

func (q *Quorum) releaseDirect(req *server.Request) error {
	reply := q.nodes[0].Release(req)
	q.nodes[0].count(reply)
	if reply.Verdict == server.Done {
		return nil
	}
	return one(reply).ended()
}

// one is the vote of a single server.
func one(reply server.Reply) *votes {
	v := new(votes)
	v.reset(1)
	v.cast(0, reply)
	return v
}
