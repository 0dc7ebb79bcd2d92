package redimutex

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/lease"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A tenure is one acquisition on the servers, from the grant to the release. One hold uses it, or
// with [WithLeaseReuse] several, one after the other.
type tenure struct {
	mutex *Mutex // whose terms it has
	line  *line
	token string
	grant quorum.Grant
	claim time.Duration // more than 0: what the grant was given for, instead of the TTL
	place string        // the name under which the servers may have us in their queues; "": they don't
	life  lease.Lease
	reuse reuse
	first Lease                 // the first hold, which is the only one of most
	now   atomic.Pointer[Lease] // the last hold after that; kept for those who trace
}

// explain names the key in the reason for which a hold has ended.
func (t *tenure) explain(err error) error {
	switch {
	case err == nil || errors.Is(err, ErrLost):
		return err
	case errors.Is(err, ErrUnlocked):
		return fmt.Errorf("redimutex: %q: %w", t.mutex.key, ErrUnlocked)
	case errors.Is(err, ErrClosed):
		return LostError{t.mutex.key, Closed}
	}
	return LostError{t.mutex.key, Expired}
}

// release ends the tenure and gives the lock back. The error matches ErrLost if it had ended before.
func (t *tenure) release(ctx context.Context, now time.Time) error {
	m, c := t.mutex, t.mutex.client
	was, renewing := t.life.End(ErrUnlocked)
	req := t.request()
	if rest := m.config.minHold - now.Sub(t.grant.At); rest > 0 {
		req.Keep = max(rest, time.Millisecond)
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	var err error
	switch {
	case errors.Is(was, ErrClosed):
		// Nothing that works in the background is left, so this is done here, as far as it can be.
		c.quorum.Release(ctx, &req, t.grant) //nolint:errcheck // the loss is what the caller has to know
		err = t.explain(was)
	case was != nil:
		// Nothing of what the servers say can change that; what is left of the lock there is cleaned up.
		c.quorum.Sweep(&req, t.grant)
		err = t.explain(was)
	default:
		if renewing == nil {
			req.Start = now
		} else {
			t.settle(ctx, renewing)
		}
		heir := t.appoint(&req, now)
		failed := c.quorum.Release(ctx, &req, t.grant)
		if heir != nil {
			heir.settle(t, &req, failed)
		}
		if failed != nil {
			f := failed.(*quorum.Failure) //nolint:errorlint,forcetypeassert // what Release returns
			err = m.explain(f)
			if ctx.Err() != nil && !errors.Is(err, ErrLost) {
				err = ended(ctx, m.key, err)
			}
		}
		if err != nil {
			t.count(err)
		}
	}
	return err
}

// settle waits until a renewal that was under way is over, so that none runs after the release. It
// waits no longer than the deadline that such a renewal carries.
func (t *tenure) settle(ctx context.Context, renewing <-chan struct{}) {
	timer := time.NewTimer(t.mutex.config.nodeTimeout)
	defer timer.Stop()
	select {
	case <-renewing:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// count counts a loss that only the release has noticed.
func (t *tenure) count(err error) {
	var lost LostError
	if errors.As(err, &lost) {
		t.mutex.client.counters.lost(lost.Reason)
		t.tell(stepLost, Event{Err: err})
	}
}

// request describes the lock to the servers.
func (t *tenure) request() server.Request {
	c := t.mutex.config
	req := server.Request{
		Key: t.mutex.key, Token: t.token, TTL: c.ttl, Timeout: c.nodeTimeout,
		Fencing: c.fencing, Guard: c.guard, Replicas: c.replicas, ReplicaTimeout: c.replicaWait,
		Queue: c.queue,
	}
	if c.queue {
		req.Claim = t.mutex.claim()
	}
	if t.place != "" {
		req.Channel, req.Waiter = t.mutex.client.hub().Channel(), t.place
	}
	return req
}

func (t *tenure) terms() lease.Terms {
	c := t.mutex.config
	return lease.Terms{Began: t.grant.At, Until: t.grant.Until, TTL: c.ttl, Renew: c.renew, Claim: t.claim, MaxHold: c.maxHold, Holder: t}
}

// start begins the tenure with what the servers gave, and reports false if the Client is closed.
func (t *tenure) start(g quorum.Grant) bool {
	t.grant = g
	t.first = Lease{tenure: t, fence: g.Fence, began: g.At.Sub(epoch)}
	return t.mutex.client.keeper.Start(&t.life, t.terms())
}

// tell tells those who want to know what happens to the tenure, which is what happens to its hold.
func (t *tenure) tell(step func(*Trace) func(Event), e Event) {
	if !t.mutex.traced() {
		return
	}
	if e.Lease = t.now.Load(); e.Lease == nil {
		e.Lease = &t.first
	}
	e.Held = time.Since(epoch) - e.Lease.began
	t.mutex.tell(step, e)
}
