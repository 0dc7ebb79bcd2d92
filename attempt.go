package redimutex

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// An attempt is one call that wants the lock, from the queue inside the process over the tries on
// the servers to the Lease.
type attempt struct {
	mutex  *Mutex
	line   *line
	began  time.Time
	tries  int
	single bool
	fresh  bool   // nothing was waited for
	token  string // of the next try
	place  *place // in the queue on the servers; nil without one
}

// gaveUp takes in that the call ends without the lock.
func (a *attempt) gaveUp(ctx context.Context, err error) error {
	m := a.mutex
	m.client.counters.failed.Add(1)
	if m.traced() {
		e := Event{Context: ctx, Attempt: a.tries, Err: err}
		if !a.began.IsZero() {
			e.Wait = time.Since(a.began)
		}
		m.tell(stepGaveUp, e)
	}
	return err
}

// run gets the lock, or has to give up and passes the turn on.
func (a *attempt) run(ctx context.Context) (*Lease, error) {
	m, c := a.mutex, a.mutex.client
	if l := a.inherit(ctx); l != nil {
		return l, nil
	}
	t, err := a.win(ctx)
	if err != nil {
		return nil, a.gaveUp(ctx, err)
	}
	t.begin()
	l := &t.first
	m.hold.Store(l)
	if m.config.reuse > 0 {
		m.last.Store(a.line)
	}
	wait := t.grant.At.Sub(a.began)
	c.counters.acquired.Add(1)
	c.counters.waitTime.Add(int64(wait))
	if a.tries > 1 {
		c.counters.contended.Add(1)
	}
	if m.traced() {
		m.tellAcquired(Event{Context: ctx, Lease: l, Attempt: a.tries, Wait: wait, Until: l.Until()})
	}
	return l, nil
}

// win asks the servers until it has the lock, or has to give up. Then the turn is passed on, also when a
// function of the caller's, such as one of a Trace, panics or ends the goroutine.
func (a *attempt) win(ctx context.Context) (t *tenure, err error) {
	m := a.mutex
	defer func() {
		if a.place != nil {
			a.place.leave(a, t)
		}
		if t == nil {
			a.line.leave()
			m.client.part(m.key, a.line)
		}
	}()
	a.giveBackKept(ctx)
	if a.takeHeir() {
		err = m.standing(a.line)
	} else {
		a.token = m.config.token()
		if m.config.queue && !a.single {
			a.place = &place{name: a.token}
		}
		t, err = a.try(ctx)
	}
	if err != nil && !a.single {
		t, err = a.retry(ctx, err)
	}
	return t, err
}

// retry goes on trying after a try that failed with err.
func (a *attempt) retry(ctx context.Context, err error) (*tenure, error) {
	m := a.mutex
	m.client.counters.waiting.Add(1)
	defer m.client.counters.waiting.Add(-1)
	for {
		var refused *serversError
		switch {
		case errors.Is(err, ErrClosed), errors.As(err, &refused) && refused.refused:
			return nil, err
		case ctx.Err() != nil:
			return nil, ended(ctx, m.key, m.standing(a.line))
		case m.config.maxAttempts > 0 && a.tries >= m.config.maxAttempts:
			return nil, err
		}
		if errors.Is(err, ErrUnavailable) && m.client.mayWarn(m.key) {
			m.config.log().Warn("redimutex: can't lock yet", "key", m.key, "err", err)
		}
		t, end := a.wait(ctx)
		if t != nil || end != nil {
			return t, end
		}
		if t, err = a.try(ctx); err == nil {
			return t, nil
		}
	}
}

// wait waits until it is time for the next try, unless a lock is handed to us without one.
func (a *attempt) wait(ctx context.Context) (*tenure, error) {
	if a.place != nil {
		return a.turn(ctx)
	}
	pause := a.mutex.pause(a.tries)
	a.line.pause = time.Now().Add(pause)
	return nil, a.sleep(ctx, pause)
}

// sleep returns nil after d, or why it was cut short.
func (a *attempt) sleep(ctx context.Context, d time.Duration) error {
	m := a.mutex
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx, m.key, m.standing(a.line))
	case <-m.client.closing:
		return closedError(m.key)
	}
}

// try asks the servers once. Every public verb comes down to this.
func (a *attempt) try(ctx context.Context) (*tenure, error) {
	m, c := a.mutex, a.mutex.client
	if !a.single && !a.fresh && a.tries == 0 {
		// Another waiter of this process may have tried just now.
		if err := a.sleep(ctx, min(time.Until(a.line.pause), m.pause(1))); err != nil {
			return nil, err
		}
	}
	a.tries++
	t := &tenure{mutex: m, line: a.line, token: a.token}
	req := t.request()
	if a.place != nil {
		a.place.take(m, &req)
	}
	if a.tries == 1 && !a.single && a.fresh && m.config.maxAttempts != 1 {
		req.Plain, req.Start = true, a.began
	}
	grant, err := c.quorum.Acquire(ctx, &req)
	if err == nil && !t.start(grant) {
		c.quorum.Release(context.WithoutCancel(ctx), &req, t.grant) //nolint:errcheck // a closed Client has nobody to repeat it
		return nil, closedError(m.key)
	}
	if err == nil {
		a.line.failure.Store(nil)
		return t, nil
	}
	f := err.(*quorum.Failure) //nolint:errorlint,forcetypeassert // what Acquire returns
	if a.place != nil {
		a.place.failed(ctx, a, f)
	} else {
		a.token = m.config.token()
	}
	if ctx.Err() == nil || a.line.failure.Load() == nil {
		a.line.failure.Store(f) // else the try was cut short, and we know better from the one before
	}
	err = m.explain(f)
	if ctx.Err() != nil {
		err = ended(ctx, m.key, m.standing(a.line))
	}
	if m.traced() {
		m.tell(stepAttempt, Event{Context: ctx, Attempt: a.tries, Wait: time.Since(a.began), Err: err})
	}
	return nil, err
}

// pause returns the wait after so many tries.
func (m *Mutex) pause(tries int) time.Duration {
	switch {
	case m.config.backoff != nil:
		return max(m.config.backoff(tries), 0)
	case m.client.quorum.Size() > 1:
		// Waiters that split the votes would do so again if they kept step.
		return jitter(m.config.poll)
	}
	return m.config.poll
}

// standing is what stands between a waiter of this process and the lock.
func (m *Mutex) standing(l *line) error {
	if f := l.failure.Load(); f != nil {
		return m.explain(f)
	}
	return LockedError{Key: m.key, Owner: m.config.owner}
}

// explain turns a failure of the servers into the error that the caller gets.
func (m *Mutex) explain(f *quorum.Failure) error {
	switch f.Kind {
	case quorum.Contended:
		return LockedError{Key: m.key, Owner: server.Owner(f.Holder), Left: f.Left}
	case quorum.Missing:
		return LostError{m.key, Deleted}
	case quorum.Taken:
		return LostError{m.key, Taken}
	case quorum.Unavailable, quorum.Refused:
	}
	e := &serversError{key: m.key, refused: f.Kind == quorum.Refused}
	for _, n := range f.Nodes {
		e.nodes = append(e.nodes, NodeError{n.Node, n.Err})
	}
	return e
}

// token returns a new token: a random UUID, and the owner's label.
func (c *config) token() string {
	t := uuid.NewString()
	if c.owner != "" {
		t += server.OwnerMark + c.owner
	}
	return t
}
