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
	holders := make(map[*quorum.Extension]*tenure, len(batch))
	for _, life := range batch {
		tenure := life.Holder().(*tenure)
		req := tenure.request()
		req.TTL = life.TTL()
		e := &quorum.Extension{Request: &req}
		holders[e] = tenure
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
func (t *tenure) extended(e *quorum.Extension) {
	m, c := t.mutex, t.mutex.client
	if e.Err != nil {
		f := e.Err.(*quorum.Failure) //nolint:errorlint,forcetypeassert // what Extend returns
		e.Err = m.explain(f)
		c.counters.notRenewed.Add(1)
	} else {
		c.counters.renewed.Add(1)
	}
	switch {
	case errors.Is(e.Err, ErrLost):
		t.life.Lose(e.Err)
	case e.Err == nil:
		t.life.Extended(e.Until, e.Request.TTL)
	}
	t.tell(stepRenewed, Event{Until: e.Until, Err: e.Err})
}

// Lost is told by the keeper when the tenure ended other than by a release.
func (t *tenure) Lost(err error) {
	t.reuse.end()
	err = t.explain(err)
	var lost LostError
	if errors.As(err, &lost) {
		t.mutex.client.counters.lost(lost.Reason)
	}
	t.tell(stepLost, Event{Err: err})
}
