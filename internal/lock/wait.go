package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/fifo"
	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/wakeup"
)

// line waits for the turn among the goroutines of this process. It begins with what the last hold, or a try for several,
// has left, if that is of use.
func (a *acquisition) line(ctx context.Context) state {
	if ctx.Err() != nil {
		return a.fail(&quorum.Failure{Kind: quorum.Ended})
	}
	if a.key = a.engine.ref(&a.Call); a.key == nil {
		return a.fail(&quorum.Failure{Kind: quorum.Closed})
	}
	switch {
	case a.key.fifo.TryAcquire():
		a.began, a.fresh, a.turn = time.Now(), a.key.pause == 0, true
	case a.Once && a.Terms.Kind.Shared && !a.key.refused.Load():
		// Several may hold the lock, so a single try goes beside that of the goroutine that has the turn. It does not
		// overtake one that the servers have refused, and that waits.
		a.began = time.Now()
	case a.Once:
		return a.fail(a.key.inTheWay())
	default:
		if a.turn = a.join(ctx); !a.turn {
			return failed
		}
	}
	if a.stopped(ctx) {
		return failed
	}
	if g := a.key.grant.Load(); g != nil && g.adopt(a.Terms, a.hold) {
		a.key.unref() // the grant has a reference of its own
		a.granted = true
		return held
	}
	if a.turn && a.key.left != nil {
		if g := a.key.takeGift(a.Terms); g != nil {
			a.grant = g
			return a.won(0)
		}
		if !a.Terms.Kind.Shows {
			a.key.giveBack()
		}
	}
	return trying
}

// join waits in line, and reports whether the turn has come.
func (a *acquisition) join(ctx context.Context) (granted bool) {
	a.began = a.engine.made.Add(a.engine.now()) // the monotonic clock alone, in half of the time
	k := a.key
	w := k.fifo.Join()
	a.engine.Waiting.Add(1)
	defer func() {
		a.engine.Waiting.Add(-1)
		if !granted && w.Cancel() && k.fifo.TryAcquire() {
			k.pass() // w had the turn already, and perhaps a gift or the mark
		}
	}()
	if a.hold.Observer.Traced() {
		a.hold.Observer.Waiting(ctx)
	}
	return a.await(ctx, w) && !a.stopped(ctx) // cancellation wins ties
}

// await waits for w. With MaxTries, each wait between two tries that passes here counts as a try that found it locked.
func (a *acquisition) await(ctx context.Context, w *fifo.Waiter) bool {
	var passed <-chan time.Time
	var timer *time.Timer
	switch {
	case a.MaxTries > 0:
		timer = time.NewTimer(a.Pause(1))
		defer timer.Stop()
		passed = timer.C
	case ctx.Done() == nil: // a select among more channels takes twice as long
		<-w.Granted()
		return true
	}
	for {
		select {
		case <-w.Granted():
			return true
		case <-ctx.Done():
			return !a.stopped(ctx)
		case <-passed:
			if a.waits++; a.usedUp() {
				a.result = a.key.inTheWay()
				return false
			}
			timer.Reset(a.Pause(a.waits + 1))
		}
	}
}

// sleepOrQueue waits until it is time for the next try, unless the lock is handed off without one. It is the only
// place that blocks while the caller has the turn, but for the try itself.
func (a *acquisition) sleepOrQueue(ctx context.Context) state {
	a.key.refused.Store(true)
	a.engine.Waiting.Add(1)
	defer a.engine.Waiting.Add(-1)
	a.key.returnGifts() // of other terms than ours: those who could take them stand behind us, and we may wait for a writer
	if a.Terms.Queue {
		return a.waitInQueue(ctx)
	}
	a.key.pause = a.engine.now() + a.wait
	if _, ok := a.sleep(ctx, a.wait, nil); !ok {
		return failed
	}
	return trying
}

// sleep waits until d has passed, or a message of wake has come, which is nil if none can. It reports whether it is so; else
// the acquisition has failed.
func (a *acquisition) sleep(ctx context.Context, d time.Duration, wake <-chan wakeup.Wake) (w wakeup.Wake, ok bool) {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return w, true
		case w = <-wake:
		case <-ctx.Done():
		case <-a.engine.closing:
		}
	}
	return w, !a.stopped(ctx)
}

// waitInQueue waits until the server hands us the lock, or there is a reason to look again.
func (a *acquisition) waitInQueue(ctx context.Context) state {
	hub := a.engine.hub()
	if a.ticket == nil {
		a.newTicket()
		a.ticket.arrive(a.arrived)
		connecting, cancel := context.WithTimeout(ctx, a.Terms.Timeout)
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
	switch wake, ok := a.sleep(ctx, a.untilLook(), a.ticket.waiter.Wake()); {
	case !ok:
		return failed
	case wake.Granted:
		return a.accept(wake.Fence)
	}
	return trying
}

// untilLook is how long to wait for a message before we look by ourselves. A look that failed is repeated soon, whatever
// the backoff says: while it is not in the queue, the waiter loses its turn.
func (a *acquisition) untilLook() time.Duration {
	f := a.key.failure.Load()
	if f == nil || f.Kind != quorum.Contended || !a.engine.hub().Listening() {
		return min(a.Pause(1), maxLook)
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
// to confirm what they are asked for. Readers who wait behind us enter with a try.
func (a *acquisition) accept(fence int64) state {
	x := a.ticket
	left := quorum.Left(x.looked.Add(x.handOff-quorum.Drift(x.handOff)), time.Now())
	if !x.queued || a.Terms.Replicas.N > 0 || left < min(a.Terms.Timeout+keepalive.Patience, a.Terms.TTL/2) ||
		a.grouped() && a.key.fifo.Waiting() > 0 {
		return trying
	}
	a.tries++ // that was not the first
	a.grant.votes.Accept(left, fence)
	return a.won(x.handOff)
}
