package redimutex

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/quorum"
)

// Reuse is what lets the holds of one process follow each other in one tenure, without asking the
// servers: lock caching, as Lustre and AFS do it.
//
// Invariant: a tenure in line.kept belongs to nobody. Whoever has the turn may take it, and has to
// use it or give it back. Whoever ends its time, or the Client, gives it back if nobody has the turn;
// else who leaves the turn does.
type reuse struct {
	over  atomic.Bool   // no further hold: the time is over, or the lock lost
	until time.Duration // since epoch: no further hold after that; the validity is good for longer
	timer *time.Timer   // gives an idle tenure back; made when it is kept for the first time
	fence int64         // of the last hold
}

// epoch is the zero of the clock on the fast path. Reading the time since then costs half of what
// time.Now does.
var epoch = time.Now()

func (r *reuse) end() { r.over.Store(true) }

// spent reports whether the tenure must not be kept any longer.
func (t *tenure) spent() bool { return t.reuse.over.Load() || t.mutex.client.closed.Load() }

// begin makes the tenure ready for further holds, if it is to have any.
func (t *tenure) begin() {
	d := t.mutex.config.reuse
	t.reuse.fence = t.grant.Fence
	if d == 0 || t.mutex.config.fencing && !t.grant.Timely {
		t.reuse.end()
		return
	}
	t.reuse.until = t.grant.At.Add(d).Sub(epoch)
	if t.claim > 0 {
		t.reuse.until = min(t.reuse.until, t.grant.Until.Add(-t.claim/2).Sub(epoch))
	}
}

// usable reports whether a hold of m can use the tenure.
func (t *tenure) usable(m *Mutex, now time.Duration) bool {
	return t.mutex.config == m.config && !t.reuse.over.Load() && now < t.reuse.until
}

// keep leaves the tenure to the next hold, if there is time for one. The caller has the turn.
func (t *tenure) keep(now time.Duration) bool {
	if t.reuse.over.Load() || now >= t.reuse.until {
		return false
	}
	if t.reuse.timer == nil {
		t.reuse.timer = time.AfterFunc(t.reuse.until-now, t.idle)
	}
	t.line.kept = t
	return true
}

// idle gives the tenure back when its time is over and nobody uses it. Whoever uses it then gives it
// back himself.
func (t *tenure) idle() {
	t.reuse.end()
	t.line.tidy()
}

// drop gives the lock back: in the background, or at once where there is none any more.
func (t *tenure) drop() {
	if !t.mutex.client.closed.Load() {
		t.sweep()
		return
	}
	t.reuse.end()
	_ = t.release(context.Background(), time.Now()) // what remains expires
	t.mutex.client.part(t.mutex.key, t.line)
}

// sweep gives the lock back in the background.
func (t *tenure) sweep() {
	c := t.mutex.client
	t.life.End(ErrUnlocked)
	req := t.request()
	c.quorum.Sweep(&req, t.grant)
	c.part(t.mutex.key, t.line)
}

// again begins a further hold of the tenure, for m.
func (t *tenure) again(ctx context.Context, m *Mutex, began, now time.Duration) *Lease {
	c := m.client
	l := &Lease{tenure: t, began: now}
	if m.config.fencing {
		l.fence = t.nextFence(now)
	}
	m.hold.Store(l)
	c.counters.acquired.Add(1)
	c.counters.waitTime.Add(int64(now - began))
	if m.traced() {
		t.now.Store(l)
		m.tellAcquired(Event{Context: ctx, Lease: l, Wait: now - began, Until: l.Until()})
	}
	return l
}

// nextFence returns a fence between that of the last hold and all that the server will ever give:
// the server's clock as it must be by now at least. It stays behind the true clock, since the grant
// is older than we count and our clock is taken to run no more than 2% too fast.
func (t *tenure) nextFence(now time.Duration) int64 {
	granted := t.grant.At.Sub(epoch)
	for {
		fence := t.grant.Fence + (now-granted).Microseconds()*49/50
		if fence > t.reuse.fence {
			t.reuse.fence = fence
			return fence
		}
		now = time.Since(epoch) // two holds within a microsecond
	}
}

// recent locks m by a tenure that the last hold left behind, without a look at anything shared but
// the line. It returns nil if there is none, or somebody else has the turn.
func (m *Mutex) recent(ctx context.Context) *Lease {
	line := m.last.Load()
	if line == nil || !line.TryEnter() {
		return nil
	}
	if t := line.kept; t != nil {
		if now := time.Since(epoch); t.usable(m, now) {
			line.kept = nil // and its place in the line is ours
			return t.again(ctx, m, now, now)
		}
	}
	line.leave()
	return nil
}

// inherit takes over what the last hold has left at the line, if it can be used. The caller has the
// turn and has joined the line.
func (a *attempt) inherit(ctx context.Context) *Lease {
	t, m := a.line.kept, a.mutex
	if t == nil {
		return nil
	}
	now := time.Since(epoch)
	if !t.usable(m, now) || ctx.Err() != nil {
		return nil
	}
	a.line.kept = nil
	m.client.part(m.key, a.line) // the kept tenure had joined as well
	m.last.Store(a.line)
	return t.again(ctx, m, a.began.Sub(epoch), now)
}

// giveBackKept gives back what the last hold has left at the line and nobody has inherited.
func (a *attempt) giveBackKept(ctx context.Context) {
	t, m := a.line.kept, a.mutex
	if t == nil {
		return
	}
	a.line.kept = nil
	defer m.client.part(m.key, a.line)
	t.reuse.end()
	if t.release(context.WithoutCancel(ctx), time.Now()) != nil {
		req := t.request()
		m.client.quorum.Sweep(&req, quorum.Grant{})
	}
}

// dropKept gives back what the last hold has left at the line, when the Client is closed.
func (l *line) dropKept() {
	if !l.TryEnter() {
		return
	}
	if t := l.kept; t != nil {
		l.kept = nil
		t.reuse.end()
		t.sweep()
	}
	l.leave()
}
