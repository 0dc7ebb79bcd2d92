package redimutex

import (
	"context"
	"errors"
	"time"

	"github.com/redimutex/redimutex/internal/lease"
	"github.com/redimutex/redimutex/internal/quorum"
)

// renew extends a batch of leases that are due. Those whose options allow it share a round trip.
func (c *Client) renew(batch []*lease.Lease) {
	type terms struct {
		timeout, replicaWait time.Duration
		replicas             int
	}
	groups := make(map[terms][]*quorum.Extension)
	holders := make(map[*quorum.Extension]*Lease, len(batch))
	for _, life := range batch {
		l := (*Lease)(life.Holder().(*holder))
		req := l.request()
		req.TTL = life.TTL()
		e := &quorum.Extension{Request: &req}
		holders[e] = l
		t := terms{req.Timeout, req.ReplicaTimeout, req.Replicas}
		groups[t] = append(groups[t], e)
	}
	for _, extensions := range groups {
		c.quorum.Extend(context.Background(), extensions)
		for _, e := range extensions {
			holders[e].extended(e)
		}
	}
}

// extended takes in how an extension went, and leaves in e.Err what the caller gets.
func (l *Lease) extended(e *quorum.Extension) {
	m, c := l.mutex, l.mutex.client
	if e.Err != nil {
		f := e.Err.(*quorum.Failure) //nolint:errorlint,forcetypeassert // what Extend returns
		e.Err = m.explain(f)
		c.counters.failures(f)
		c.counters.notRenewed.Add(1)
	} else {
		c.counters.renewed.Add(1)
	}
	switch {
	case errors.Is(e.Err, ErrLost):
		l.life.Lose(e.Err)
	case e.Err == nil:
		l.life.Extended(e.Until, e.Request.TTL)
	}
	if t := m.config.trace; t != nil && t.Renewed != nil {
		t.Renewed(l.event(Event{Until: e.Until, Err: e.Err}))
	}
}

// A holder is a Lease as its life sees it: who is told of a loss.
type holder Lease

func (h *holder) Lost(err error) {
	l := (*Lease)(h)
	err = l.explain(err)
	var lost LostError
	if errors.As(err, &lost) {
		l.mutex.client.counters.lost(lost.Reason)
	}
	if t := l.mutex.config.trace; t != nil && t.Lost != nil {
		t.Lost(l.event(Event{Err: err}))
	}
}
