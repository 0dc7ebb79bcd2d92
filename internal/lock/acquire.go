package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A Call is one call that wants a lock.
type Call struct {
	Key      string
	Hint     *Key // nil, or that of an earlier call for the same key
	Terms    *Terms
	Once     bool                          // a single try, and no waiting
	MaxTries int                           // 0: no limit
	Pause    func(tries int) time.Duration // the wait after so many tries
}

// A Result is how a call went.
type Result struct {
	Key     *Key
	Tries   int
	Wait    time.Duration // since the call; 0 if it never began
	Failure *Failure      // nil: the lock is held
}

// An acquisition is one call that wants a lock. One goroutine drives it:
//
//	inLine ─ turn ─→ trying ─ granted ───────────────────→ held
//	   │               ↑ └ contended, unavailable → waiting ─ handed over → held
//	   └ parked grant  └───── timer, wake-up ─────────┘
//	     → held            any ─ ctx, Close, refused, tries used up → failed
//
// The line is that of this process, for the turn. The queue is that of the servers, for the lock.
type acquisition struct {
	Call
	engine  *Engine
	key     *Key
	hold    *Hold
	began   time.Time
	tries   int
	fresh   bool    // the turn was free, and nobody has polled: the first try may be a plain SET
	turn    bool    // we have it
	token   string  // of the next try
	arrived int64   // when a server has first seen us, in µs on its clock; 0: not yet
	ticket  *ticket // our place in the servers' queue; nil without one
	grant   *Grant
	result  *Failure
}

type state int8

const (
	inLine state = iota
	trying
	waiting
	held
	failed
)

// Lock gets the lock for h, or says why it could not.
func (e *Engine) Lock(ctx context.Context, c *Call, h *Hold) Result {
	a := acquisition{Call: *c, engine: e, hold: h}
	a.run(ctx)
	r := Result{Key: a.key, Tries: a.tries, Failure: a.result}
	switch {
	case a.result == nil:
		r.Wait = max(h.Began().Sub(a.began), 0)
	case !a.began.IsZero():
		r.Wait = time.Since(a.began)
	}
	return r
}

func (a *acquisition) run(ctx context.Context) {
	defer a.finish() // also when a function of the caller's panics
	for s := a.begin(ctx); ; {
		switch s {
		case inLine:
			s = a.line(ctx)
		case trying:
			s = a.try(ctx)
		case waiting:
			s = a.wait(ctx)
		case held, failed:
			return
		}
	}
}

// finish leaves what the acquisition does not need any more: its ticket, and without a grant its turn.
func (a *acquisition) finish() {
	if a.key == nil {
		return
	}
	if a.ticket != nil {
		a.ticket.leave(a.grant)
	}
	if a.grant != nil {
		return
	}
	if a.turn {
		a.key.pass()
	}
	a.key.unref()
}

// fail ends the acquisition.
func (a *acquisition) fail(f *Failure) state {
	a.result = f
	return failed
}

// stopped reports whether the ctx or the Engine has ended, which fails the acquisition.
func (a *acquisition) stopped(ctx context.Context) bool {
	switch {
	case Over(ctx):
		a.result = &Failure{Kind: Ended}
		if a.key != nil {
			a.result.Servers, a.result.Waited = a.key.inTheWay(), true
		}
	case a.engine.closed.Load():
		a.result = &Failure{Kind: Closed}
	}
	return a.result != nil
}

func (a *acquisition) begin(ctx context.Context) state {
	if ctx.Err() != nil {
		return a.fail(&Failure{Kind: Ended})
	}
	if a.key = a.engine.ref(a.Key, a.Hint); a.key == nil {
		return a.fail(&Failure{Kind: Closed})
	}
	return inLine
}

// try asks the servers once. Every verb comes down to this.
func (a *acquisition) try(ctx context.Context) state {
	if !a.Once && !a.fresh && a.tries == 0 {
		// Another waiter of this process may have tried just now.
		if !a.sleep(ctx, min(time.Until(a.key.pause), a.Pause(1))) {
			return failed
		}
	}
	start := a.began
	if a.tries > 0 || !a.Once && !a.fresh { // we have waited
		start = time.Now()
	}
	if !a.disposed(ctx, start) {
		return failed
	}
	a.tries++
	if a.Terms.Queue && !a.Once && a.ticket == nil && a.engine.hub().Listening() {
		a.useTicket(a.key.newTicket(a.Terms))
	}
	if a.token == "" {
		a.token = a.Terms.token()
	}
	t := a.Terms.try(a.key.name, a.token)
	if a.Once || a.fresh {
		t.Start = start
	}
	t.Plain = a.tries == 1 && a.fresh && !a.Once && a.MaxTries != 1
	if a.ticket != nil {
		a.ticket.present(&t)
	}
	won, f := a.engine.quorum.Acquire(ctx, &t, a.key.tail.Load())
	if f == nil {
		return a.won(ctx, won, 0)
	}
	return a.notWon(ctx, f)
}

// useTicket has the tries go on with a ticket.
func (a *acquisition) useTicket(x *ticket) { a.ticket, a.token = x, x.token() }

// disposed waits until what this process gives back in the background is given back, so that it does not
// stand in our way, but not longer than a try takes.
func (a *acquisition) disposed(ctx context.Context, start time.Time) bool {
	done := a.key.disposal.Load()
	if done == nil {
		return true
	}
	timer := time.NewTimer(time.Until(start.Add(a.Terms.NodeTimeout)))
	defer timer.Stop()
	select {
	case <-*done:
		a.key.disposal.CompareAndSwap(done, nil)
	case <-timer.C:
	case <-ctx.Done():
	}
	return !a.stopped(ctx)
}

// won makes a grant of what the servers gave, unless it comes too late: cancellation wins ties.
func (a *acquisition) won(ctx context.Context, won quorum.Grant, handOff time.Duration) state {
	var ticket *server.Ticket
	if a.ticket != nil && a.engine.Several() {
		ticket = &a.ticket.place
	}
	g := (*Grant)(nil)
	if !a.stopped(ctx) {
		g = newGrant(a.key, a.Terms, a.token, ticket, won, handOff, a.hold)
	}
	if g == nil {
		if a.result == nil {
			a.result = &Failure{Kind: Closed}
		}
		r := a.Terms.release(a.key.name, a.token, time.Now(), a.Terms.TTL)
		if a.result.Kind == Closed { // nothing that works in the background is left
			a.engine.quorum.Release(context.WithoutCancel(ctx), &r, won)
		} else {
			a.engine.quorum.Undo(&r, won)
		}
		return failed
	}
	a.grant = g
	a.key.failure.Store(nil)
	return held
}

// notWon records a try that has failed, and decides how to go on.
func (a *acquisition) notWon(ctx context.Context, f *quorum.Failure) state {
	if a.ticket != nil {
		a.useTicket(a.ticket.failed(f))
	} else {
		a.token, a.arrived = "", f.Now // what became of the token may be unknown
	}
	if !Over(ctx) || a.key.failure.Load() == nil {
		a.key.failure.Store(f) // else the try was cut short, and we know better from the one before
	}
	failure := &Failure{Kind: Servers, Servers: f}
	if a.stopped(ctx) {
		failure = a.result
	}
	if a.hold.Observer.Traced() && f.Kind != quorum.Lapsed {
		a.hold.Observer.Tried(ctx, a.tries, time.Since(a.began), failure)
	}
	switch {
	case a.result != nil:
		return failed
	case f.Kind == quorum.Lapsed:
		return trying
	case a.Once, f.Kind == quorum.Refused, a.MaxTries > 0 && a.tries >= a.MaxTries:
		return a.fail(failure)
	case f.Kind == quorum.Unavailable:
		a.hold.Observer.Unavailable(f)
	}
	return waiting
}

// wait waits until it is time for the next try, unless the lock is handed over without one. It is the only
// place that blocks while the caller has the turn, but for the try itself.
func (a *acquisition) wait(ctx context.Context) state {
	a.engine.Waiting.Add(1)
	defer a.engine.Waiting.Add(-1)
	if a.Terms.Queue {
		return a.waitInQueue(ctx)
	}
	pause := a.Pause(a.tries)
	a.key.pause = time.Now().Add(pause)
	if !a.sleep(ctx, pause) {
		return failed
	}
	return trying
}

// sleep reports whether d has passed. Otherwise the acquisition has failed.
func (a *acquisition) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return !a.stopped(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-a.engine.closing:
	}
	return !a.stopped(ctx)
}
