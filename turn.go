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
	arrived int64         // when we first looked, on the server's clock in µs; 0: we do not know yet
	looked  time.Time     // just before our last look at the queue
	seen    int64         // the server's clock in µs at that look; 0: not under this name
	cut     bool          // the last try was cut short, and may still be executed
}

// The wait between two looks at the queue. It grows with the queue, so that all waiters together
// look some hundred times a second at most. A waiter who hangs costs his claim and one of them.
const (
	minLook  = 75 * time.Millisecond
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
func (p *place) failed(ctx context.Context, a *attempt, f *quorum.Failure) {
	m := a.mutex
	p.cut = ctx.Err() != nil
	if f.Kind == quorum.Contended && f.Now != 0 && (p.arrived == 0 || f.Now < p.arrived) {
		p.arrived = f.Now // or the server's clock was set back: then it is as if we came now
	}
	single := m.client.quorum.Size() == 1
	if f.Kind == quorum.Contended && single {
		p.looked, p.seen = f.Sent, f.Now
		return
	}
	if single && p.waiter != nil && (p.seen != 0 || p.cut) {
		p.sweep(m, a.token) // or the lock would be given to a name that nobody answers to
	}
	a.token = m.config.token()
	if !single {
		return // the place has a name of its own
	}
	p.seen, p.name = 0, a.token
	if p.waiter != nil {
		p.waiter.Leave()
		p.waiter = m.client.hub().Join(p.name)
	}
}

// sweep takes the place out of the queues, and gives back what it was given there.
func (p *place) sweep(m *Mutex, token string) {
	t := tenure{mutex: m, token: token, place: p.name}
	req := t.request()
	if p.cut {
		req.Again = time.Now().Add(req.Timeout + req.ReplicaTimeout)
	}
	m.client.quorum.Sweep(&req, quorum.Grant{})
}

// turn waits until the servers hand us the lock, or there is a reason to look again; then it returns
// neither a tenure nor an error.
func (a *attempt) turn(ctx context.Context) (*tenure, error) {
	m, p := a.mutex, a.place
	hub := m.client.hub()
	if p.waiter == nil {
		p.waiter = hub.Join(p.name)
		connecting, cancel := context.WithTimeout(ctx, m.config.nodeTimeout)
		defer cancel()
		up := hub.Listen(connecting)
		select {
		case <-p.waiter.Wake(): // that we are up
		default:
		}
		if up && m.config.maxAttempts == 0 && ctx.Err() == nil {
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

// accept makes a tenure of a lock that was handed to us. It was not ours when we last looked, so it was
// given to us after that, and is valid for one claim from that look at least: we need not ask before
// we use it. The message of an earlier gift that has lapsed since is recognized by its time. After a
// look of a while ago too little of the claim would be left for a process that is held up a little.
func (a *attempt) accept(ctx context.Context, wake queue.Wake) (*tenure, error) {
	m, p := a.mutex, a.place
	if ctx.Err() != nil { // cancellation wins ties
		return nil, ended(ctx, m.key, m.standing(a.line))
	}
	claim := m.claim()
	now := time.Now()
	until := p.looked.Add(claim - quorum.Drift(claim))
	if wake.Now <= p.seen || p.seen == 0 || m.config.replicas > 0 || until.Sub(now) < claim*2/3 {
		return nil, nil //nolint:nilnil // look again
	}
	t := &tenure{mutex: m, line: a.line, token: a.token, claim: claim}
	if !t.start(quorum.Grant{At: now, Until: until, Fence: wake.Fence, Timely: wake.Fence == wake.Now}) {
		return nil, closedError(m.key)
	}
	a.tries++ // that was not the first
	a.line.failure.Store(nil)
	return t, nil
}

// leave gives the place up. t is nil, or the lock that was won. A single server that gave it to us has
// taken us out of its queue; of several, those that did not do so at Unlock.
func (p *place) leave(a *attempt, t *tenure) {
	if p.waiter == nil {
		return
	}
	p.waiter.Leave()
	single := a.mutex.client.quorum.Size() == 1
	switch {
	case t != nil && !single:
		t.place = p.name
	case t == nil && (p.seen != 0 || !single):
		p.sweep(a.mutex, a.token)
	}
}
