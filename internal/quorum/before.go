package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Before are the claims of earlier holds of one process that may still stand in the way of the next one: the last on
// each server that is not out of the way.
type Before struct {
	mu     sync.Mutex
	claims []*server.Claim
}

// Add takes in votes that were released.
func (b *Before) Add(v *Votes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.claims == nil {
		b.claims = make([]*server.Claim, len(v.home.nodes))
	}
	for i := range b.claims {
		if c := v.claim(i); c.Away() != nil {
			b.claims[i] = c
		}
	}
}

// gone returns what is closed when the claim on server i is gone; nil: none stands in the way.
func (b *Before) gone(i int) <-chan struct{} {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.claims == nil || b.claims[i] == nil {
		return nil
	}
	gone := b.claims[i].Away()
	if gone == nil {
		b.claims[i] = nil
	}
	return gone
}

func (b *Before) pending(i int) bool { return b.gone(i) != nil }

// Wait waits until nothing stands in the way on any server, until due at most, or until ctx ends.
func (b *Before) Wait(ctx context.Context, due time.Time) {
	b.mu.Lock()
	n := len(b.claims)
	b.mu.Unlock()
	for i := range n {
		b.wait(ctx, i, due)
	}
}

// wait waits until nothing stands in the way on server i, and reports whether that is so.
func (b *Before) wait(ctx context.Context, i int, due time.Time) bool {
	gone := b.gone(i)
	if gone == nil {
		return true
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-gone:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
