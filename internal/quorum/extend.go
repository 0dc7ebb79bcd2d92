package quorum

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// An Extension is one lease to extend, and then how that went.
type Extension struct {
	Request *server.Request
	Until   time.Time // valid until, if Err is nil
	Err     error     // a *Failure
}

// Extend extends leases, many in one round trip to each server, and fills in how it went. A lease is
// extended when a majority of the servers has extended it. All must have the same Timeout.
func (q *Quorum) Extend(ctx context.Context, batch []*Extension) {
	e := extending{quorum: q, answers: make(chan answer, len(q.nodes))}
	e.requests, e.results = make([]*server.Request, len(batch)), make([]votes, len(batch))
	for i, x := range batch {
		copied := *x.Request // the goroutines may outlive this call
		e.requests[i] = &copied
		e.results[i].reset(len(q.nodes))
	}
	absent := q.absent()
	for i := range q.nodes {
		if absent == nil || absent[i] == nil {
			e.ask(i)
		}
	}
	for i, err := range e.await(ctx, absent) {
		if err != nil {
			e.record(answer{i, fill(len(batch), err)})
		}
	}
	for i, x := range batch {
		if x.Err = e.results[i].ended(); x.Err == nil {
			x.Until, _ = e.results[i].lease(x.Request.TTL)
		}
	}
}

// Extending is a round for many leases: each server answers for all of them, and each lease has its
// own votes.
type extending struct {
	quorum   *Quorum
	requests []*server.Request
	results  []votes
	answers  chan answer // has room for all, so nobody waits who comes late
	flying   int
}

type answer struct {
	node    int
	replies []server.Reply
}

func (e *extending) ask(i int) {
	e.flying++
	n := e.quorum.nodes[i]
	go func() {
		began := n.begin()
		replies := n.Extend(e.requests)
		for _, reply := range replies {
			n.count(reply)
		}
		n.end(began, !silentBatch(replies))
		e.answers <- answer{i, replies}
	}()
}

func (e *extending) record(a answer) {
	for i := range e.results {
		e.results[i].cast(a.node, a.replies[i])
	}
}

// await returns when all is decided, when ctx ends, or when the servers have used up their time. It
// returns those that were left out to the end.
func (e *extending) await(ctx context.Context, absent []error) []error {
	first := e.requests[0]
	timer := time.NewTimer(first.Timeout + first.ReplicaTimeout + first.Timeout/8)
	defer timer.Stop()
	var patience <-chan time.Time
	if absent != nil {
		patience = time.After(minSilence)
	}
	for e.flying > 0 && !allDecided(e.results) {
		select {
		case a := <-e.answers:
			e.flying--
			e.record(a)
		case <-patience: // as in a round
			for i, err := range absent {
				if err != nil {
					e.ask(i)
				}
			}
			absent = nil
		case <-timer.C:
			return absent
		case <-ctx.Done():
			return absent
		}
	}
	return absent
}

func allDecided(results []votes) bool {
	for i := range results {
		if !results[i].decided() {
			return false
		}
	}
	return true
}

func fill(n int, err error) []server.Reply {
	replies := make([]server.Reply, n)
	for i := range replies {
		replies[i].Err = err
	}
	return replies
}

// silentBatch reports whether the server did not say anything.
func silentBatch(replies []server.Reply) bool {
	for _, r := range replies {
		if !server.TimedOut(r.Err) {
			return false
		}
	}
	return true
}
