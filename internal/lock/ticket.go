package lock

import (
	"context"
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
//	 └ any → withdrawn, when the acquisition ends
//
// Its name is never used again, so a message that is late is for nobody. The name is also the token of the tries,
// because the server makes it the value of the lock.
type ticket struct {
	engine *Engine
	key    *Key
	terms  *Terms
	place  server.Ticket // how the servers know it
	waiter *wakeup.Waiter

	shown     bool      // the last try had the ticket with it
	asked     bool      // some try had
	queued    bool      // a server has said that it is queued
	looked    time.Time // just before the last look that found it queued
	drops     uint64    // of the hub, then
	presented uint64    // of the hub, when it was last presented
	open      time.Time // a server may yet queue it until then

	every time.Duration // between two looks
	gap   time.Duration // smoothed: between looks of all waiters together
}

// fewWait is how many waiters may look every minLook.
const fewWait = 32

func (k *Key) newTicket(t *Terms) *ticket {
	e := k.engine
	x := &ticket{engine: e, key: k, terms: t, every: minLook}
	x.place = server.Ticket{
		Name: t.token(), Channel: e.hub().Channel(), HandOff: t.handOff(e.servers[0].RTT()), Fencing: t.Fencing,
	}
	x.waiter = e.hub().Join(x.place.Name)
	return x
}

// present puts the ticket into a try. Nobody can be woken who does not listen, so it is not queued then.
func (x *ticket) present(t *server.Try) {
	hub := x.engine.hub()
	if x.shown = hub.Listening(); x.shown {
		x.asked = true
		t.Ticket, x.presented = x.place, hub.Drops()
	}
}

// failed records a try that did not get the lock. It returns the ticket to go on with.
func (x *ticket) failed(f *quorum.Failure) *ticket {
	if f.Open.After(x.open) {
		x.open = f.Open
	}
	switch {
	case f.Kind == quorum.Contended && !x.shown:
		x.arrive(f.Now)
		return x
	case f.Kind == quorum.Contended:
		x.arrive(f.Now)
		x.queued, x.looked, x.drops = true, f.Sent, x.presented
		x.place.Rejoin = false
		x.pace(f.Gap)
		return x
	}
	if f.Kind != quorum.Lapsed && (x.queued || x.shown && x.place.Rejoin) {
		x.undo() // or the lock would be handed to a name that nobody answers to; a first try undoes itself
	}
	next := x.key.newTicket(x.terms)
	next.every, next.gap = x.every, x.gap
	if f.Kind != quorum.Lapsed || x.drops != x.engine.hub().Drops() { // it could not hear that it was called
		next.place.Arrived, next.place.Rejoin = x.place.Arrived, true
	}
	x.waiter.Leave()
	return next
}

// arrive notes that the waiter is there, at that time on the server's clock. If that was set back, it is as if it
// came now.
func (x *ticket) arrive(now int64) {
	if at := x.place.Arrived; now != 0 && (at == 0 || now < at) {
		x.place.Arrived, x.place.Rejoin = now, true
	}
}

// pace decides how often to look: so often that all waiters that live look some hundred times a second
// together. How many there are follows from how long ago the last of them looked.
func (x *ticket) pace(gap time.Duration) {
	if gap <= 0 {
		return // the first look of all
	}
	if x.gap == 0 {
		x.gap = gap
	}
	x.gap += (gap - x.gap) / 4
	x.every = min(max(x.every*minLook/fewWait/max(x.gap, 1), minLook), maxLook)
}

// waitInQueue waits until the server hands us the lock, or there is a reason to look again.
func (a *acquisition) waitInQueue(ctx context.Context) state {
	hub := a.engine.hub()
	if a.ticket == nil {
		a.useTicket(a.key.newTicket(a.Terms))
		a.ticket.arrive(a.arrived)
		connecting, cancel := context.WithTimeout(ctx, a.Terms.NodeTimeout)
		defer cancel()
		up := hub.Listen(connecting)
		select {
		case <-a.ticket.waiter.Wake(): // that we are up
		default:
		}
		if up && a.MaxTries == 0 && ctx.Err() == nil {
			return trying // now that we can be woken
		}
	}
	timer := time.NewTimer(a.untilLook())
	defer timer.Stop()
	select {
	case wake := <-a.ticket.waiter.Wake():
		switch {
		case a.stopped(ctx):
			return failed
		case wake.Granted:
			return a.accept(ctx, wake.Fence)
		}
		return trying
	case <-timer.C:
		return trying
	case <-ctx.Done():
	case <-a.engine.closing:
	}
	a.stopped(ctx)
	return failed
}

// untilLook is how long to wait for a message before we look by ourselves.
func (a *acquisition) untilLook() time.Duration {
	f := a.key.failure.Load()
	if f == nil || f.Kind != quorum.Contended || !a.engine.hub().Listening() {
		return min(a.Pause(a.tries), maxLook) // also after a look that failed
	}
	wait := a.ticket.every
	if f.Left > 0 {
		wait = min(wait, f.Left+time.Millisecond)
	}
	return max(wait, min(a.Pause(1), minLook))
}

// accept makes a grant of a hand-off, by the message alone where that is safe. The lock was not ours when we
// last looked, so it was given to us after that, and is valid for one hand-off lease from that look at least. What is
// left of that has to outlast a stall of one node timeout when it is extended, else we ask once more; and replicas have
// to confirm what they are asked for.
func (a *acquisition) accept(ctx context.Context, fence int64) state {
	x := a.ticket
	handOff, now := x.place.HandOff, time.Now()
	left := quorum.Left(x.looked.Add(handOff-drift(handOff)), now)
	if !x.queued || a.Terms.Replicas > 0 || left < min(a.Terms.NodeTimeout+keepalive.Patience, a.Terms.TTL/2) {
		return trying
	}
	a.tries++ // that was not the first
	return a.won(ctx, quorum.Grant{At: now, Valid: left, Fence: fence}, handOff)
}

// leave gives the ticket up. g is nil, or the grant that was won: the server that gave it to us has taken the ticket out
// of its queue.
func (x *ticket) leave(g *Grant) {
	x.waiter.Leave()
	if g == nil && (x.asked || x.queued) {
		x.undo()
	}
}

// undo takes the ticket out of the queue, and gives back what it was given there.
func (x *ticket) undo() {
	r := x.terms.release(x.key.name, x.place.Name, time.Now(), x.terms.TTL)
	r.Ticket, r.Open = x.place, x.open
	x.engine.quorum.Undo(&r, quorum.Grant{})
}
