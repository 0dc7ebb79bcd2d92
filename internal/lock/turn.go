package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/fifo"
	"github.com/redimutex/redimutex/internal/quorum"
)

// line waits for the turn among the goroutines of this process.
func (a *acquisition) line(ctx context.Context) state {
	switch {
	case a.key.fifo.TryAcquire():
		a.began, a.fresh = time.Now(), a.key.pause.IsZero()
	case a.Once:
		return a.fail(&Failure{Kind: Busy, Servers: a.key.inTheWay()})
	case !a.join(ctx):
		return failed
	}
	a.turn = true
	return a.inherit(ctx)
}

// join waits in line, and reports whether the turn has come.
func (a *acquisition) join(ctx context.Context) (granted bool) {
	var prequeue any // on which terms a release may queue us on the server
	if a.Terms.Queue && a.MaxTries == 0 {
		prequeue = a.Terms
	}
	a.began = a.engine.made.Add(time.Since(a.engine.made)) // the monotonic clock alone, in half of the time
	w := a.key.fifo.Join(prequeue)
	a.engine.Waiting.Add(1)
	defer func() {
		a.engine.Waiting.Add(-1)
		if !granted {
			a.key.cancel(w)
		}
	}()
	if a.hold.Observer.Traced() {
		a.hold.Observer.Waiting(ctx)
	}
	if !a.await(ctx, w) {
		return false
	}
	if w.Closed() {
		a.result = &Failure{Kind: Closed}
		return false
	}
	return !a.stopped(ctx) // cancellation wins ties
}

// await waits for w. With MaxTries, each wait between two tries that passes here counts as a try that found
// the lock held.
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
			if a.tries++; a.tries >= a.MaxTries {
				a.result = &Failure{Kind: Busy, Servers: a.key.inTheWay()}
				return false
			}
			timer.Reset(a.Pause(a.tries + 1))
		}
	}
}

// inherit begins with what the last hold has left, if it is of use.
func (a *acquisition) inherit(ctx context.Context) state {
	p := a.key.parked.Swap(nil)
	if p == nil {
		return trying
	}
	if a.stopped(ctx) {
		p.dispose()
		return failed
	}
	switch now := time.Now(); {
	case p.grant != nil && p.grant.usable(a.Terms, now) && p.grant.adopt(a.hold, now):
		a.grant = p.grant
		a.key.unref() // the grant has a reference of its own
		return held
	case p.ticket != nil && !a.Once && a.MaxTries == 0 && p.ticket.serves(a.Terms):
		a.useTicket(p.ticket)
		a.tries = 1
		a.key.failure.Store(unasked)
		return waiting
	default:
		p.dispose()
	}
	return trying
}

// unasked stands for the answer that a pre-queued ticket would have got, had it asked.
var unasked = &quorum.Failure{Kind: quorum.Contended}
