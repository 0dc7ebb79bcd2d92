package quorum

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Released is what came of a release.
type Released struct {
	Tail    *Tail // what some servers have not answered; nil: all have
	Arrived int64 // of the ticket that was queued for the next waiter of this process; 0: it was not
}

// A Tail is a release that some servers have not answered. The next try for the lock asks each server
// only after that server's part of it, so that our own release never stands in our way.
type Tail struct {
	parts []<-chan struct{} // by server: closed when its part is over; nil: it was already
}

// part returns what is closed when the part of server i is over, or nil.
func (t *Tail) part(i int) <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.parts[i]
}

// add notes a part of server i, among n.
func (t *Tail) add(i, n int, part <-chan struct{}) *Tail {
	if t == nil {
		t = &Tail{parts: make([]<-chan struct{}, n)}
	}
	t.parts[i] = part
	return t
}

// Release gives the lock back on all servers and returns when a majority has. What remains goes on
// in the background, even if ctx ends. The Failure is Missing or Taken when the lock was not ours any
// more, Unavailable when too few servers answered.
func (q *Quorum) Release(ctx context.Context, rel *server.Release, g Grant) (Released, *Failure) {
	q.enter()
	defer q.leave()
	if n := q.single(); n != nil {
		reply := n.Release(ctx, rel)
		if !ended(ctx) {
			n.count(reply)
		}
		if reply.Verdict == server.Done {
			return Released{Arrived: reply.Arrived}, nil
		}
		return Released{Arrived: reply.Arrived}, one(reply).ended()
	}
	r := q.newRound(ctx, 1, rel.Timeout)
	r.release, r.ask = own(rel), (*round).releaseAt
	if rel.Start.IsZero() {
		r.release.Start = r.began
	} else {
		r.bound = max(0, time.Until(rel.Start.Add(r.bound)))
	}
	late, tail := g.abandon(rel, false)
	r.start(late)
	r.await(ctx)
	return r.released(rel, g, tail)
}

// own returns a copy of rel that its caller has no hand in.
func own(rel *server.Release) server.Release {
	copied := *rel
	if rel.Next != nil {
		next := *rel.Next
		copied.Next = &next
	}
	return copied
}

func (r *round) releaseAt(i int) {
	n := r.home.nodes[i]
	began := n.begin()
	reply := n.Release(r.ctx, &r.release)
	n.end(began, !server.TimedOut(reply.Err))
	n.count(reply)
	r.report(i, reply)
}

// released ends the round of a release. Where it was not even tried it goes on in the background.
func (r *round) released(rel *server.Release, g Grant, tail *Tail) (Released, *Failure) {
	size := len(r.seats)
	r.mu.Lock()
	failure := r.votes[0].ended()
	done := Released{Tail: tail, Arrived: r.votes[0].arrived()}
	var undo *server.Release
	var silent []*node
	for i := range r.seats {
		switch {
		case r.pending(i):
			done.Tail = done.Tail.add(i, size, r.ending(i))
		case r.seats[i].state == skipped:
			if undo == nil {
				copied := own(rel)
				undo = &copied
			}
			silent = append(silent, r.home.nodes[i])
			if part := g.after.part(i); part != nil && !closed(part) {
				done.Tail = done.Tail.add(i, size, part)
			}
		}
	}
	r.end = lost
	r.unref()
	for _, n := range silent {
		n.Undo(undo)
	}
	return done, failure
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Undo releases the lock everywhere, in the background. A try that has failed needs it only to have
// its ticket leave the queues; rel.Open is then the Failure's.
func (q *Quorum) Undo(rel *server.Release, g Grant) {
	late, _ := g.abandon(rel, true)
	copied := own(rel)
	for i, n := range q.nodes {
		if late == nil || !late[i] {
			n.Undo(&copied)
		}
	}
}

// abandon tells the tries that are still under way that their lock is over. It returns which they are:
// they take part in the release by themselves. Nobody waits for them with gone.
func (g Grant) abandon(rel *server.Release, gone bool) (late []bool, tail *Tail) {
	r := g.late
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	if r.gen != g.gen { // all have ended since
		r.mu.Unlock()
		return nil, nil
	}
	first := r.end != parted
	r.end, r.parting, r.gone = parted, own(rel), gone
	r.parting.Start = time.Time{}
	for i := range r.seats {
		if !r.pending(i) {
			continue
		}
		if late == nil {
			late = make([]bool, len(r.seats))
		}
		late[i] = true
		if !gone {
			tail = tail.add(i, len(r.seats), r.ending(i))
		}
	}
	if first {
		r.unref() // the Grant's
	} else {
		r.mu.Unlock()
	}
	return late, tail
}

// part takes the vote back that server n has given when the lock was over already, or the place in
// its queue.
func (r *round) part(n *node) {
	r.mu.Lock()
	rel, gone := own(&r.parting), r.gone
	r.mu.Unlock()
	if gone {
		n.Undo(&rel)
		return
	}
	began := n.begin()
	reply := n.Release(r.ctx, &rel)
	n.end(began, !server.TimedOut(reply.Err))
	n.count(reply)
}
