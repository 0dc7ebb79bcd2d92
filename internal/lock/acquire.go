package lock

import (
	"context"
	"math"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// An acquisition is one call that wants a lock. One goroutine drives it:
//
//	inLine ─ turn ─→ trying ─ granted ───────────────────→ held
//	   │               ↑ └ contended, unavailable → waiting ─ handed off → held
//	   └ parked, spare └───── timer, wake-up ─────────┘
//	     → held            any ─ ctx, Close, refused, tries used up → failed
//
// In the line, goroutines of this process wait for the turn. In the queue of the server, processes wait for the lock. Kinds
// that several goroutines may hold pass the turn on when the lock is granted, other kinds when it is released.
type acquisition struct {
	Call
	engine    *Engine
	key       *Key
	hold      *Hold
	began     time.Time
	tries     int  // how often the servers were asked
	intervals int  // poll intervals spent in line; each counts as a try for MaxTries
	joined    bool // it has stood in line behind another call
	turn      bool // the call has the turn
	bid            // with the turn, the bid of the line
	granted   bool
	failure   *quorum.Failure // why the call failed; nil: it has not
}

type state int8

const (
	inLine state = iota
	trying
	waiting
	held
	failed
)

// Lock gets the lock for h, or returns why it could not.
func (e *Engine) Lock(ctx context.Context, c *Call, h *Hold) Result {
	a := acquisition{Call: *c, engine: e, hold: h}
	defer a.finish() // also if a function of the caller panics
	for s := inLine; s != held && s != failed; {
		switch s {
		case inLine:
			s = a.awaitTurn(ctx)
		case trying:
			s = a.try(ctx)
		case waiting:
			s = a.sleepOrQueue(ctx)
		}
	}
	r := Result{Tries: a.tries, Failure: a.failure}
	switch {
	case a.began.IsZero():
	case a.failure == nil:
		r.Wait = max(h.Began().Sub(a.began), 0)
	default:
		r.Wait = time.Since(a.began)
	}
	return r
}

// finish passes on the turn, and the bid with it. But a grant that excludes others keeps the turn until its release.
func (a *acquisition) finish() {
	if a.key == nil {
		return
	}
	if a.granted {
		if a.turn { // otherwise another goroutine has the turn, and still needs what the line was told
			a.key.forget()
		}
		a.grant, a.group = nil, nil // now the hold has the grant, and the line has the group
	} else {
		defer a.key.unref() // otherwise the grant keeps the reference
		if a.turn && !a.Once && a.grant != nil && a.key.left.bid.grant == nil {
			a.key.leave().bid, a.bid = a.bid, bid{} // pass releases the bid if no goroutine waits
		}
	}
	a.bid.drop()
	if a.turn && (!a.granted || a.Terms.Kind.Shared) {
		a.key.pass()
	}
}

// awaitTurn waits for the turn among the goroutines of this process. Then it uses what an earlier call left: a grant or a bid.
func (a *acquisition) awaitTurn(ctx context.Context) state {
	if ctx.Err() != nil {
		return a.fail(&quorum.Failure{Kind: quorum.Ended})
	}
	if a.key = a.engine.ref(&a.Call); a.key == nil {
		return a.fail(&quorum.Failure{Kind: quorum.Closed})
	}
	switch {
	case a.Terms.Kind.Shared && a.adopted():
		return held
	case a.key.fifo.TryAcquire():
		a.turn = true
	case a.Once && a.Terms.Kind.Shared && !a.key.refused.Load():
		// Several may hold the lock, so a single try runs beside that of the turn. It overtakes no call that was refused.
	case a.Once:
		return a.fail(a.key.inTheWay(a.Terms.Timeout / 2))
	default:
		if a.turn = a.join(ctx); !a.turn {
			return failed
		}
	}
	if a.turn && a.adopted() {
		return held
	}
	if !a.joined {
		a.began = time.Now()
		if a.stopped(ctx) { // the timer of ctx may be late
			return failed
		}
	} else if a.inherit() {
		return a.won(0)
	}
	return trying
}

// adopted tries to join this process's grant, and reports success. The call must have the turn, unless the kind is shared.
func (a *acquisition) adopted() bool {
	if g := a.key.grant.Load(); g != nil && g.adopt(a.Terms, a.hold) {
		a.key.unref() // the grant has its own reference
		a.granted = true
	}
	return a.granted
}

func (a *acquisition) fail(f *quorum.Failure) state {
	a.failure = f
	return failed
}

// stopped reports whether ctx has ended or the Engine is closing. If so, it fails the acquisition.
func (a *acquisition) stopped(ctx context.Context) bool {
	switch {
	case conn.Over(ctx):
		a.failure = &quorum.Failure{Kind: quorum.Ended, Before: a.key.known(math.MaxInt64)}
		if a.joined { // otherwise its own try says more
			a.failure.Before = a.key.inTheWay(time.Since(a.began) / 2)
		}
	case a.engine.closing.Err() != nil:
		a.failure = &quorum.Failure{Kind: quorum.Closed}
	}
	return a.failure != nil
}

func (a *acquisition) usedUp() bool {
	return a.Once || a.MaxTries > 0 && a.tries+a.intervals >= a.MaxTries
}

// try asks the servers once. Every verb comes down to this.
func (a *acquisition) try(ctx context.Context) state {
	if a.tries == 0 && a.joined && a.answer == nil { // another waiter of this process may have tried just now
		if s := a.await(ctx, min(a.key.left.pause-server.Monotonic(), a.untilLook())); s != trying {
			return s
		}
	}
	a.tries++
	if f := a.ask(ctx); f != nil {
		return a.notWon(ctx, f)
	}
	return a.won(0)
}

// ask returns the answer to a try: the one that an earlier call left, or a new one. If its call stood in line, or others stand
// behind it, the try goes on when the call gives up. Otherwise calls that used up their time in line would each cut the try
// short, and no try would be answered.
func (a *acquisition) ask(ctx context.Context) *quorum.Failure {
	if a.answer == nil {
		t := server.Try{Start: time.Now()}
		with := votes(a.prepare(&t))
		l := a.grant.votes.Spec()
		if a.engine.reuses.Load() { // otherwise nothing is parked
			a.engine.makeWay(l, a.key)
		}
		if a.turn {
			a.key.last.Store(l)
			a.key.asked.CompareAndSwap(0, int64(server.Monotonic()))
		}
		if a.Once || !a.turn || ctx.Done() == nil || !a.joined && a.key.fifo.Waiting() == 0 {
			return a.grant.votes.Acquire(ctx, t, nil, with)
		}
		of, try, answer := &a.grant.votes, t, make(chan *quorum.Failure, 1) // a copy of t: t itself would be on the heap
		on, cut := context.WithCancel(context.WithoutCancel(ctx))
		a.answer, a.cut = answer, cut
		a.engine.quorum.Go(func() { answer <- of.Acquire(on, try, nil, with) })
	}
	select {
	case f := <-a.answer:
		if f == nil && conn.Ended(ctx) != nil {
			a.answer <- nil // cancellation wins ties: the next call gets the lock
			break
		}
		a.answer = nil
		if f == nil && !a.grant.votes.MarkGranted(a.grant.votes.Until()) {
			return a.ask(ctx) // the lock was won for a call that has left, and too much of the lease has passed since
		}
		return f
	case <-ctx.Done():
	case <-a.engine.closing.Done():
	}
	a.key.leave().pause = server.Monotonic() + a.pause(a.tries) // until then, a next call that can't use this try does not ask
	return a.engine.quorum.Unanswered()
}

// prepare makes the grants of the next try, for this call and for the group behind it in line. It fills in t.
func (a *acquisition) prepare(t *server.Try) (group []*Grant) {
	if a.grant == nil { // the first try, and no earlier call has left a bid
		a.grant = a.key.newGrant(&a.Call)
	}
	if a.Terms.Queue && !a.Once && a.ticket == nil && a.engine.hub.Listening() {
		a.newTicket()
	}
	n := a.behind()
	for len(a.group) < n {
		a.group = append(a.group, a.key.newGrant(&a.Call))
	}
	group = a.group[:n]
	if a.Once {
		return group
	}
	t.Plain = a.tries == 1 && !a.joined && a.MaxTries != 1
	if a.ticket != nil {
		a.present(t)
	}
	switch {
	case !a.Terms.Kind.Shows, a.MaxTries == 1 && a.key.fifo.Waiting() == 0:
	case a.Terms.Queue:
		t.Shows = maxLook + a.Terms.Timeout
	default:
		// The wait is chosen before the try: the mark must last until the next try, but not longer, because it keeps others out.
		a.wait = a.pause(a.tries)
		t.Shows = max(a.wait, a.pause(1)) + a.Terms.Timeout
	}
	return group
}

// behind returns how many calls in line enter with the one that has the turn. Only readers do: a reader that tried alone later
// might have to wait for a writer. With lease reuse they share its grant instead.
func (a *acquisition) behind() int {
	if !a.turn || a.Terms.Kind != server.Reader || a.Terms.Reuse > 0 {
		return 0
	}
	return min(a.key.fifo.Waiting(), atOnce-1)
}

// won starts the grant that the servers gave. Its callers have just checked that ctx has not ended: cancellation wins ties.
func (a *acquisition) won(handOff time.Duration) state {
	if !a.grant.start(handOff, !a.Terms.Kind.Shared, a.hold) {
		return a.fail(&quorum.Failure{Kind: quorum.Closed})
	}
	a.granted = true
	if len(a.group) > 0 { // only a call with the turn has a group; the spares belong to the turn
		a.key.leave().spares = append(a.key.left.spares, a.group...)
	}
	return held
}
