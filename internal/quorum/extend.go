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
	requests := make([]*server.Request, len(batch))
	for i, e := range batch {
		copied := *e.Request // the goroutines may outlive this call
		requests[i] = &copied
	}
	type answer struct {
		node    int
		replies []server.Reply
	}
	answers := make(chan answer, len(q.nodes))
	results := make([]votes, len(batch))
	for i := range results {
		results[i].reset(len(q.nodes))
	}
	record := func(a answer) {
		for i := range results {
			results[i].cast(a.node, a.replies[i])
		}
	}
	flying := 0
	ask := func(i int) {
		flying++
		n := q.nodes[i]
		go func() {
			began := n.begin()
			replies := n.Extend(requests)
			n.end(began, !silentBatch(replies))
			answers <- answer{i, replies}
		}()
	}
	absent := q.absent()
	var patience <-chan time.Time
	if absent != nil {
		patience = time.After(minSilence)
	}
	for i := range q.nodes {
		if absent == nil || absent[i] == nil {
			ask(i)
		}
	}
	timer := time.NewTimer(requests[0].Timeout + requests[0].ReplicaTimeout + requests[0].Timeout/8)
	defer timer.Stop()
wait:
	for flying > 0 && !allDecided(results) {
		select {
		case a := <-answers:
			flying--
			record(a)
		case <-patience: // as in a round
			for i, err := range absent {
				if err != nil {
					ask(i)
				}
			}
			absent = nil
		case <-timer.C:
			break wait
		case <-ctx.Done():
			break wait
		}
	}
	for i, err := range absent {
		if err != nil {
			record(answer{i, fill(len(batch), err)})
		}
	}
	for i, e := range batch {
		if e.Err = results[i].ended(); e.Err == nil {
			e.Until, _ = results[i].lease(e.Request.TTL)
		}
	}
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
