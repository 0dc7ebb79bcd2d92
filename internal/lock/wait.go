package lock

import (
	"cmp"
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
	"github.com/redimutex/redimutex/internal/wakeup"
)

// join waits in line, and reports whether the call got the turn. With MaxTries, each poll interval here counts as a try.
func (a *acquisition) join(ctx context.Context) (granted bool) {
	a.began, a.joined = time.Now(), true
	k := a.key
	w := k.fifo.Join()
	a.engine.Waiting.Add(1)
	defer func() {
		a.engine.Waiting.Add(-1)
		if !granted && !w.Cancel() {
			k.pass() // the turn came in the meantime: pass it on, with what was left (spares, a bid)
		}
	}()
	a.hold.Observer.Waiting(ctx)
	var passed <-chan time.Time
	if a.MaxTries > 0 {
		passed = time.After(a.Pause(1))
	}
	for {
		select {
		case <-passed:
			if a.intervals++; a.usedUp() {
				a.failure = a.key.inTheWay(a.Terms.Timeout / 2)
				return false
			}
			passed = time.After(a.Pause(a.intervals + 1))
			continue
		case <-w.Granted():
		case <-ctx.Done():
		case <-a.engine.closing.Done():
		}
		return !a.stopped(ctx) // cancellation wins ties
	}
}

// notWon records a try that has failed, and decides what comes next.
func (a *acquisition) notWon(ctx context.Context, f *quorum.Failure) state {
	stopped := a.stopped(ctx)
	if !stopped && a.turn {
		a.key.answered(f) // otherwise the try was cut short, which says nothing to other callers
	}
	if f.Now != 0 && (a.arrived == 0 || f.Now < a.arrived) { // it has arrived now, or the server's clock was set back
		a.arrived = f.Now
	}
	switch {
	case a.answer != nil: // the try goes on for the next call
	case f.Kind == quorum.Contended && a.ticket != nil:
		a.ticket.contended(f)
	case stopped && f.Kind != quorum.Contended, a.ticket != nil && a.ticket.shown, !a.Once && a.grant.votes.Spent():
		// What the servers did with a try that was cut is unknown, and the next try must not rely on it. If a ticket got no answer,
		// the server may know more of it than we do. If the ticket let its hand-off lapse, and its waiter could hear that it was
		// called, its place is lost.
		if f.Kind == quorum.Lapsed && a.ticket.drops == a.engine.hub.Drops() {
			a.arrived = 0
		}
		a.replace()
	}
	if stopped {
		a.failure.Before, f = cmp.Or(a.failure.Before, f), a.failure
	}
	if f.Kind != quorum.Lapsed {
		a.hold.Observer.Tried(ctx, a.tries, time.Since(a.began), f)
	}
	switch {
	case a.failure != nil:
		return failed
	case f.Kind == quorum.Lapsed:
		return trying
	case f.Kind == quorum.Refused, a.usedUp():
		return a.fail(f)
	case f.Kind == quorum.Unavailable:
		a.hold.Observer.Unavailable(f)
	}
	return waiting
}

// sleepOrQueue waits until the next try is due. It ends early if the lock is handed off, or to look at the queue again. While
// a call has the turn, nothing else blocks it but a try and the pause before its first try.
func (a *acquisition) sleepOrQueue(ctx context.Context) state {
	a.key.refused.Store(true)
	a.key.giveBack() // spares have other terms: the calls that could use them are behind this one, which may wait for a writer
	if a.Terms.Queue {
		if a.ticket == nil {
			a.newTicket()
		}
		wait := a.untilLook()
		if rest := a.key.left.pause - server.Monotonic(); rest > 0 { // a message interrupted this wait, and only its rest is left
			wait = min(wait, rest)
		}
		return a.await(ctx, wait)
	}
	if !a.Terms.Kind.Shows {
		a.wait = a.pause(a.tries)
	}
	return a.await(ctx, a.wait)
}

// pause returns the wait after this number of tries. A waiter that others must see looks again within maxLook.
func (a *acquisition) pause(tries int) time.Duration {
	d := a.Pause(tries)
	if a.Terms.Queue || a.Terms.Kind.Shows {
		d = min(d, maxLook)
	}
	return d
}

// await waits for d before a try. A message for the ticket ends the wait, and may bring the lock without a try. The next call
// of this line also does not try before d has passed, unless it gets the message.
func (a *acquisition) await(ctx context.Context, d time.Duration) state {
	var wake wakeup.Wake
	if d > 0 {
		var woken <-chan wakeup.Wake
		if a.ticket != nil {
			woken = a.ticket.waiter.Wake()
		}
		a.key.leave().pause = server.Monotonic() + d
		a.engine.Waiting.Add(1)
		defer a.engine.Waiting.Add(-1)
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return trying
		case wake = <-woken:
			if !wake.Granted && a.MaxTries > 0 { // each try counts: the next comes when it would if the waiter had known this before
				return waiting
			}
			a.key.left.pause = 0
		case <-ctx.Done():
		case <-a.engine.closing.Done():
		}
	}
	switch {
	case a.stopped(ctx):
		return failed
	case wake.Granted:
		return a.accept(wake.Fence)
	}
	return trying
}

// untilLook returns how long to wait for a message before the next look. A failed look is repeated after the first pause, a
// second at most: a waiter misses its turn while it is not in the queue.
func (a *acquisition) untilLook() time.Duration {
	f := a.key.failure.Load()
	if a.ticket == nil || f == nil || f.Kind != quorum.Contended || !a.engine.hub.Listening() {
		return a.pause(1)
	}
	if !a.ticket.queued && a.MaxTries == 0 {
		return 0 // the waiter could not be woken at that answer, and can be now
	}
	// All waiters together look a few hundred times a second.
	wait := min(max(time.Duration(f.Waiting)*minLook/fewWait, minLook+a.engine.servers[0].RTT()), maxLook)
	if f.Left > 0 {
		wait = min(wait, f.Left+time.Millisecond)
	}
	return max(wait, min(a.Pause(1), minLook))
}

// accept turns a hand-off into a grant, by the message alone where that is safe. The last look found that the lock was not
// ours. So it was given to us after that look, and is valid for at least one hand-off from that look. The rest must outlast a
// stall of one node timeout during its extension. Otherwise a try asks the servers. A try is also needed for replicas, which
// must confirm, and for readers behind this one, which enter with it.
func (a *acquisition) accept(fence int64) state {
	x, handOff := a.ticket, a.grant.votes.Spec().HandOff
	until := x.looked.Add(quorum.Validity(handOff))
	if !x.queued || a.Terms.Replicas.N > 0 || quorum.Left(until, time.Now()) < min(a.Terms.Timeout+keepalive.Patience, a.Terms.TTL/2) ||
		a.behind() > 0 {
		return trying
	}
	a.tries++ // a hand-off counts as one
	a.grant.votes.Accept(until, fence)
	return a.won(handOff)
}
