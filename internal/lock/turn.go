package lock

import (
	"context"
	"slices"
	"time"

	"github.com/redimutex/redimutex/internal/fifo"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// line waits for the turn among the goroutines of this process.
func (a *acquisition) line(ctx context.Context) state {
	if ctx.Err() != nil {
		return a.fail(&Failure{Kind: Ended})
	}
	if a.key = a.engine.ref(&a.Call); a.key == nil {
		return a.fail(&Failure{Kind: Closed})
	}
	switch {
	case a.key.fifo.TryAcquire():
		a.began, a.fresh = time.Now(), a.key.pause == 0
	case a.Once && a.Terms.Kind.Shared && !a.key.refused.Load():
		// Several may hold the lock, so a single try goes beside that of the goroutine that has the turn. It does not
		// overtake one that the servers have refused, and that waits.
		a.began = time.Now()
		return a.inherit(ctx)
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
	a.began = a.engine.made.Add(a.engine.now()) // the monotonic clock alone, in half of the time
	if !a.Terms.Kind.Shows {
		a.key.unseen.Add(1)
		defer a.key.unseen.Add(-1)
	}
	w := a.key.fifo.Join()
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
			if a.waits++; a.usedUp() {
				a.result = &Failure{Kind: Busy, Servers: a.key.inTheWay()}
				return false
			}
			timer.Reset(a.Pause(a.waits + 1))
		}
	}
}

// inherit begins with what the last hold, or a try for several, has left, if it is of use.
func (a *acquisition) inherit(ctx context.Context) state {
	if a.stopped(ctx) {
		return failed
	}
	if a.key.adopt(a.Terms, a.hold) {
		a.key.unref() // the grant has a reference of its own
		a.granted = true
		return held
	}
	if a.turn {
		if g := a.key.takeGift(a.Terms); g != nil {
			a.grant = g
			return a.won(0)
		}
	}
	return trying
}

// pass gives the turn to the next goroutine. If there is none, the gifts are returned.
func (k *Key) pass() {
	for {
		if len(k.gifts) > 0 && k.fifo.Waiting() == 0 {
			k.returnGifts()
		}
		left := len(k.gifts) > 0
		// If gifts are left, those who waited for them have left just now.
		if k.fifo.Release() || !left || !k.fifo.TryAcquire() {
			return
		}
	}
}

// cancel ends the waiting of w, which may have the turn already.
func (k *Key) cancel(w *fifo.Waiter) {
	if w.Cancel() && k.kind.Load() == server.Reader && k.fifo.TryAcquire() {
		k.pass() // the gift of w, if there was one
	}
}

// takeGift returns a gift for a call with these terms, or nil. The caller has the turn.
func (k *Key) takeGift(t *Terms) *Grant {
	for i, g := range k.gifts {
		if *g.terms == *t && time.Until(g.votes.Until()) > (t.TTL-quorum.Drift(t.TTL))/2 {
			k.gifts = slices.Delete(k.gifts, i, i+1)
			return g
		}
	}
	return nil
}

// returnGifts releases the gifts that no goroutine has taken. The caller has the turn.
func (k *Key) returnGifts() {
	for _, g := range k.gifts {
		g.votes.ReleaseLater(time.Time{})
	}
	k.gifts = nil
}
