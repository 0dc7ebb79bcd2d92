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
// The name of a ticket is the token of the tries, because a hand-off makes the name the value of the lock. No name is used
// again, so a late message finds no waiter.
type ticket struct {
	waiter *wakeup.Waiter

	shown     bool      // the last try carried the ticket
	queued    bool      // the server has answered that the ticket is queued
	looked    time.Time // just before the last look that found the ticket queued
	drops     uint64    // Hub.Drops at that look
	presented uint64    // Hub.Drops when the ticket was last put into a try
}

const (
	minLook = 75 * time.Millisecond // the shortest wait between two looks at the queue
	maxLook = time.Second           // the longest
	fewWait = 32                    // how many waiters may look every minLook
)

// handOff returns how long a hand-off to a waiter lasts: a node timeout for a stall of the server, two round trips, the age of
// the last look, and the time before the waiter asks for its TTL. It is at most the TTL.
func handOff(t *server.Terms, rtt time.Duration) time.Duration {
	return min(t.Timeout+2*rtt+minLook+keepalive.Patience, t.TTL)
}

// newTicket registers a new ticket with the hub. The next try can queue it.
func (a *acquisition) newTicket() {
	a.ticket = &ticket{waiter: a.engine.hub.Join(a.grant.Token(), a.Key)}
}

// present puts the ticket into a try. While the hub does not listen, the waiter can't be woken, so it is not queued.
func (a *acquisition) present(t *server.Try) {
	x, hub := a.ticket, a.engine.hub
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
