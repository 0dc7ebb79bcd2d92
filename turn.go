package redimutex

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redimutex/redimutex/internal/queue"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A place is an attempt's place in the queue on the servers.
type place struct {
	name    string        // stands for the attempt in the queue; the token of its tries, if there is one server
	waiter  *queue.Waiter // nil: not in the queue yet
	arrived int64         // on the server's clock in µs; 0: we do not know yet
	looked  time.Time     // just before our last look at the queue
	seen    int64         // the server's clock in µs at that look
}

// The wait between two looks at the queue. It grows with the queue, so that all waiters together
// look some hundred times a second at most.
const (
	minLook  = 100 * time.Millisecond
	maxLook  = time.Second
	fewWait  = 32 // so many waiters look every minLook
	splitGap = 2 * time.Millisecond
)

// claim is for how long a release gives the lock to the next waiter. With several servers none can
// give it alone.
func (m *Mutex) claim() time.Duration {
	if m.client.quorum.Size() > 1 {
		return 0
	}
	return min(queue.Claim, m.config.ttl)
}

// take puts the place into a try. Nobody can be woken who does not listen yet, so he does not queue.
func (p *place) take(m *Mutex, req *server.Request) {
	hub := m.client.hub()
	if p.waiter == nil && hub.Listening() {
		p.waiter = hub.Join(p.name)
	}
	if p.waiter == nil || !hub.Listening() {
		return
	}
	req.Channel, req.Waiter, req.Arrived = hub.Channel(), p.name, p.arrived
}

// failed takes in a try that did not get the lock. What became of its token may be unknown, so the
// next one needs another, unless the server said that it was not used.
func (p *place) failed(a *attempt, f *quorum.Failure) {
	if f.Kind == quorum.Contended && a.mutex.client.quorum.Size() == 1 {
		p.looked, p.seen = f.Sent, f.Now
		if p.arrived == 0 && p.waiter != nil {
			p.arrived = f.Now
		}
		return
	}
	a.token = a.mutex.config.token()
	if a.mutex.client.quorum.Size() > 1 {
		return // the place has a name of its own
	}
	p.seen, p.name = 0, a.token
	if p.waiter != nil {
		p.waiter.Leave()
		p.waiter = a.mutex.client.hub().Join(p.name)
	}
}

// turn waits until the servers hand us the lock, or there is a reason to look again; then it returns
// neither a Lease nor an error.
func (a *attempt) turn(ctx context.Context) (*tenure, error) {
	m, p := a.mutex, a.place
	hub := m.client.hub()
	if p.waiter == nil {
		p.waiter = hub.Join(p.name)
		connecting, cancel := context.WithTimeout(ctx, m.config.nodeTimeout)
		defer cancel()
		if hub.Listen(connecting) {
			return nil, nil //nolint:nilnil // look again, now that we can be woken
		}
	}
	timer := time.NewTimer(a.untilLook())
	defer timer.Stop()
	select {
	case wake := <-p.waiter.Wake():
		if m.client.quorum.Size() > 1 && wake.Now != 0 {
			// The others are being released just now.
			return nil, a.sleep(ctx, splitGap/2+rand.N(splitGap))
		}
		return a.accept(ctx, wake)
	case <-timer.C:
		return nil, nil //nolint:nilnil // look again
	case <-ctx.Done():
		return nil, ended(ctx, m.key, m.standing(a.line))
	case <-m.client.closing:
		return nil, closedError(m.key)
	}
}

// untilLook is how long to wait for a message before we look by ourselves.
func (a *attempt) untilLook() time.Duration {
	m := a.mutex
	f := a.line.failure.Load()
	if f == nil || f.Kind != quorum.Contended || !m.client.hub().Listening() {
		return m.pause(a.tries)
	}
	wait := min(minLook*time.Duration(max(f.Waiting, fewWait))/fewWait, maxLook)
	if f.Left > 0 {
		wait = min(wait, f.Left+time.Millisecond)
	}
	return max(wait, min(m.config.poll, minLook))
}

// accept makes a Lease of a lock that was handed to us. It was not ours when we last looked, so it was
// given to us after that, and is valid for one claim from that look at least: we need not ask before
// we use it. The message of an earlier gift that has lapsed since is recognized by its time.
func (a *attempt) accept(ctx context.Context, wake queue.Wake) (*tenure, error) {
	m, p := a.mutex, a.place
	claim := m.claim()
	now := time.Now()
	until := p.looked.Add(claim - quorum.Drift(claim))
	if wake.Now <= p.seen || p.seen == 0 || m.config.replicas > 0 || until.Sub(now) < claim/3 || ctx.Err() != nil {
		return nil, nil //nolint:nilnil // look again
	}
	t := &tenure{mutex: m, line: a.line, token: a.token, claim: claim}
	t.grant = quorum.Grant{At: now, Until: until, Fence: wake.Fence, Timely: wake.Fence == wake.Now}
	if !m.client.keeper.Start(&t.life, t.terms()) {
		return nil, closedError(m.key)
	}
	a.line.failure.Store(nil)
	return t, nil
}

// leave gives the place up. With the lock won, the servers have done so already, or will at Unlock.
func (p *place) leave(a *attempt, won bool) {
	if p.waiter == nil {
		return
	}
	p.waiter.Leave()
	if !won {
		t := tenure{mutex: a.mutex, token: a.token}
		req := t.request()
		req.Channel, req.Waiter = a.mutex.client.hub().Channel(), p.name
		a.mutex.client.quorum.Sweep(&req, quorum.Grant{})
	}
}
