package lock

import (
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
	"github.com/redimutex/redimutex/internal/wakeup"
)

// A ticket is a waiter's place in the queue of the server. With several servers waiters poll.
//
//	new ─ shown in a try → queued ─ message → redeemed, by the message alone or by a try
//	 │ └ its last try had no answer, or its hand-off lapsed → replaced by another
//	 └ any → left, when the lock is won, or the bid dropped
//
// Its name is the token of the tries, because the server makes it the value of the lock. It is never used again, so a
// message that is late finds no waiter.
type ticket struct {
	waiter *wakeup.Waiter

	shown     bool      // the last try had the ticket with it
	queued    bool      // the server has said that it is queued
	looked    time.Time // just before the last look that found it queued
	drops     uint64    // Hub.Drops at that look
	presented uint64    // Hub.Drops when it was last put into a try
}

const (
	minLook = 75 * time.Millisecond // the shortest wait between two looks at the queue
	maxLook = time.Second           // the longest
	fewWait = 32                    // how many waiters may look every minLook
)

// handOff is how long a hand-off to a waiter lasts: one node timeout for a stall of the server, two round trips, the age of
// the last look, and the time before the waiter asks for its TTL.
func handOff(t *server.Terms, rtt time.Duration) time.Duration {
	return min(t.Timeout+2*rtt+minLook+keepalive.Patience, t.TTL)
}

// newTicket begins to wait in the queue.
func (a *acquisition) newTicket() {
	l, hub := a.grant.votes.Spec(), a.engine.hub()
	a.ticket = &ticket{waiter: hub.Join(l.Token, l.Key)}
}

// present puts the ticket into a try. A waiter that does not listen can't be woken, and is not queued.
func (a *acquisition) present(t *server.Try) {
	x, hub := a.ticket, a.engine.hub()
	x.shown = hub.Listening()
	t.Polls = !x.shown
	if x.shown {
		t.Queues, t.Arrived, t.Rejoins, x.presented = true, a.arrived, !x.queued, hub.Drops()
	}
}

func (x *ticket) contended(f *quorum.Failure) {
	if x.shown {
		x.queued, x.looked, x.drops = true, f.Sent, x.presented
	}
}

// arrive notes when the waiter came, on the server's clock. If that was set back, it is as if it came now.
func (b *bid) arrive(now int64) {
	if now != 0 && (b.arrived == 0 || now < b.arrived) {
		b.arrived = now
	}
}
