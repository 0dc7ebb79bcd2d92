package lock

import (
	"time"

	"github.com/redimutex/redimutex/internal/quorum"
)

// A bid is what a line has at the servers and has not won yet. It belongs to the turn: a call that gives up leaves it, and
// the next one goes on with it. So the place in the queue is kept, and so is a try that is under way.
type bid struct {
	grant   *Grant               // of the next try; nil: a new one
	group   []*Grant             // for others of this line, who enter with it
	ticket  *ticket              // our place in the server's queue; nil without one
	arrived int64                // the server's clock in µs when we came there, or at the try before; 0: it has not told yet
	answer  chan *quorum.Failure // to a try that is under way, and does not end with the call; nil: there is none
}

// inherit goes on with what is left for the caller, who has the turn: a spare, which is the lock, or a bid. It reports which.
func (a *acquisition) inherit() (won bool) {
	l := a.key.left
	for i, g := range l.spares {
		if *g.terms() == *a.Terms && quorum.Left(g.votes.Until(), time.Now()) > quorum.Validity(a.Terms.TTL)/2 {
			a.grant, l.spares = g, append(l.spares[:i], l.spares[i+1:]...)
			return true
		}
	}
	if l.bid.grant != nil {
		a.bid, l.bid, a.fresh = l.bid, bid{}, false
		if *a.grant.terms() != *a.Terms || a.grant.votes.Spent() {
			a.replace()
		}
	}
	return false
}

// replace goes on with another token, which has no ticket. The place in the queue stays.
func (a *acquisition) replace() {
	a.bid.drop()
	a.grant = a.key.newGrant(&a.Call)
}

// drop gives up all but the place.
func (b *bid) drop() {
	if b.ticket != nil {
		b.ticket.waiter.Leave()
	}
	if b.grant != nil {
		b.group = append(b.group, b.grant)
	}
	if len(b.group) > 0 { // else nothing is allocated
		quorum.Drop(votes(b.group)...)
	}
	*b = bid{arrived: b.arrived}
}
