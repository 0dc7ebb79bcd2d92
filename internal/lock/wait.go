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

// join waits in line, and reports whether the turn has come. With MaxTries, each wait between two tries that passes here
// counts as a try that found it locked.
func (a *acquisition) join(ctx context.Context) (granted bool) {
	a.began, a.joined = time.Now(), true
	k := a.key
	w := k.fifo.Join()
	a.engine.Waiting.Add(1)
	defer func() {
		a.engine.Waiting.Add(-1)
		if !granted && !w.Cancel() {
			k.pass() // the turn had come already: it goes on to the next, with what was left (spares, a bid)
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
			if a.waits++; a.usedUp() {
				a.failure = a.key.inTheWay(a.Terms.Timeout / 2)
				return false
			}
			passed = time.After(a.Pause(a.waits + 1))
			continue
		case <-w.Granted():
		case <-ctx.Done():
		case <-a.engine.closing.Done():
		}
		return !a.stopped(ctx) // cancellation wins ties
	}
}

// notWon records a try that has failed, and decides how to go on.
func (a *acquisition) notWon(ctx context.Context, f *quorum.Failure) state {
	stopped := a.stopped(ctx)
	if !stopped && a.turn {
		a.key.answered(f) // else the try was cut short, which says nothing to other callers
	}
	a.arrive(f.Now)
	switch {
	case a.answer != nil: // it goes to the next call
	case f.Kind == quorum.Contended && a.ticket != nil:
		a.ticket.contended(f)
	case stopped && f.Kind != quorum.Contended, a.ticket != nil && a.ticket.shown, !a.Once && a.grant.votes.Spent():
		// What the servers did with a try that was cut is not known, and the next one must not count on it. Of a ticket the
		// server may know more than we, or it let its hand-off lapse: where it could hear that it was called, its place is lost.
		if f.Kind == quorum.Lapsed && a.ticket.drops == a.engine.hub().Drops() {
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

// sleepOrQueue waits until it is time for the next try, unless the lock is handed off without one, or there is a reason to look
// at the queue again. Nothing else blocks while the caller has the turn, but for a try and the pause before the first.
func (a *acquisition) sleepOrQueue(ctx context.Context) state {
	a.key.refused.Store(true)
	a.key.giveBack() // spares of other terms than ours: those who could take them stand behind us, and we may wait for a writer
	if a.Terms.Queue {
		if a.ticket == nil {
			a.newTicket()
		}
		wait := a.untilLook()
		if rest := a.key.left.pause - server.Monotonic(); rest > 0 { // a message has ended that wait, which does not begin again
			wait = min(wait, rest)
		}
		return a.await(ctx, wait)
	}
	if !a.Terms.Kind.Shows {
		a.wait = a.pause(a.tries)
	}
	return a.await(ctx, a.wait)
}

// pause is the wait after so many tries. A waiter that others are to see looks once in maxLook at least.
func (a *acquisition) pause(tries int) time.Duration {
	d := a.Pause(tries)
	if a.Terms.Queue || a.Terms.Kind.Shows {
		d = min(d, maxLook)
	}
	return d
}

// await waits before a try until d has passed, unless a message for the ticket comes first: then the lock may be handed off
// without a try. The next call of this line does not try before d has passed either, unless the message is for it then.
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
			if !wake.Granted && a.MaxTries > 0 { // each try counts: it comes as if the waiter had known that before
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

// untilLook is how long to wait for a message before we look by ourselves. A look that failed is repeated after the first
// pause, a second at most: while it is not in the queue, the waiter loses its turn.
func (a *acquisition) untilLook() time.Duration {
	f := a.key.failure.Load()
	if a.ticket == nil || f == nil || f.Kind != quorum.Contended || !a.engine.hub().Listening() {
		return a.pause(1)
	}
	if !a.ticket.queued && a.MaxTries == 0 {
		return 0 // it can be woken since that answer
	}
	// All waiters together look some hundred times a second.
	wait := min(max(time.Duration(f.Waiting)*minLook/fewWait, minLook), maxLook)
	if f.Left > 0 {
		wait = min(wait, f.Left+time.Millisecond)
	}
	return max(wait, min(a.Pause(1), minLook))
}

// accept makes a grant of a hand-off, by the message alone where that is safe. The lock was not ours when we
// last looked, so it was given to us after that, and is valid for one hand-off lease from that look at least. What is
// left of that has to outlast a stall of one node timeout when it is extended, else we ask once more; and replicas have
// to confirm what they are asked for. Readers who wait behind us enter with a try.
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
