package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/fifo"
)

// line waits for the turn among the goroutines of this process.
func (a *acquisition) line(ctx context.Context) state {
	switch {
	case a.key.fifo.TryAcquire():
		a.began, a.fresh = time.Now(), a.key.pause.IsZero()
	case a.Once && a.Terms.Kind.Shared:
		// Several may hold the lock, so a try that does not wait goes beside that of the goroutine that has the turn.
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
	a.began = a.engine.made.Add(time.Since(a.engine.made)) // the monotonic clock alone, in half of the time
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
			if a.tries++; a.tries >= a.MaxTries {
				a.result = &Failure{Kind: Busy, Servers: a.key.inTheWay()}
				return false
			}
			timer.Reset(a.Pause(a.tries + 1))
		}
	}
}

// inherit begins with what the last hold, or a try for several, has left, if it is of use.
func (a *acquisition) inherit(ctx context.Context) state {
	if a.stopped(ctx) {
		return failed
	}
	if a.key.adoptParked(a.Terms, a.hold) {
		a.grant = a.hold.grant
		a.key.unref() // the grant has a reference of its own
		return held
	}
	if a.turn {
		if v := a.key.takeGift(a.Terms); v != nil {
			a.votes = v
			return a.won(ctx, 0)
		}
	}
	return trying
}
