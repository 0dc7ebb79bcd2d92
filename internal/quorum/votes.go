package quorum

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Votes are what the servers give for one lock: a claim on each.
type Votes struct {
	At    time.Time     // when the lock was given
	Valid time.Duration // from At
	Fence int64         // 0: none

	home  *Quorum
	first server.Claim    // of the first server, which often is the only one
	more  *[]server.Claim // of the others; nil: there is none
}

// Claim makes v the Votes for a lock that is to be taken.
func (q *Quorum) Claim(v *Votes, l server.Lock) {
	v.home = q
	if n := len(q.nodes); n > 1 {
		more := make([]server.Claim, n-1)
		v.more = &more
	}
	for i, n := range q.nodes {
		n.Claim(v.claim(i), l)
	}
}

// claim returns the claim on server i.
func (v *Votes) claim(i int) *server.Claim {
	if i == 0 {
		return &v.first
	}
	return &(*v.more)[i-1]
}

// claims are those on all servers.
func (v *Votes) claims(yield func(*server.Claim) bool) {
	for i := range v.home.nodes {
		if !yield(v.claim(i)) {
			return
		}
	}
}

// Each calls f with each claim.
func (v *Votes) Each(f func(*server.Claim)) {
	for c := range v.claims {
		f(c)
	}
}

// Any reports whether f does so of a claim.
func (v *Votes) Any(f func(*server.Claim) bool) bool {
	for c := range v.claims {
		if f(c) {
			return true
		}
	}
	return false
}

// Size is the number of claims.
func (v *Votes) Size() int { return len(v.home.nodes) }

// Lock returns what the Votes are for.
func (v *Votes) Lock() *server.Lock { return &v.first.Lock }

// Until returns when the validity ends.
func (v *Votes) Until() time.Time { return v.At.Add(v.Valid) }

// Accept makes the votes those of a lock that the only server has handed to its token, for so long.
func (v *Votes) Accept(valid time.Duration, fence int64) {
	v.At, v.Valid, v.Fence = time.Now(), valid, fence
	v.first.Entered()
}

// quiet ends the votes, and waits until nothing is under way for them, until due at most, or until ctx ends.
func (v *Votes) quiet(ctx context.Context, due time.Time) {
	for c := range v.claims {
		c.Quiet(ctx, due)
	}
}

// ReleaseLater releases the lock in the background; with keep it is left to expire then. After Close there is no
// background, and each server is asked once before this returns, all at the same time.
func (v *Votes) ReleaseLater(keep time.Time) {
	var closed sync.WaitGroup
	defer closed.Wait()
	for c := range v.claims {
		if v.home.Closing() {
			closed.Go(func() { c.ReleaseLater(keep) })
		} else {
			c.ReleaseLater(keep)
		}
	}
}

// Before are the claims of earlier holds of one process that may still stand in the way of the next one: the last on
// each server that is not out of the way.
type Before struct {
	mu     sync.Mutex
	claims map[int]*server.Claim // by server
}

// Add takes in votes that were released. It has then called for each claim that gets out of the way, and returns how many
// are not yet.
func (b *Before) Add(v *Votes, then func()) (left int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range v.home.nodes {
		c := v.claim(i)
		if !c.WhenAway(then) {
			continue
		}
		if b.claims == nil {
			b.claims = make(map[int]*server.Claim)
		}
		b.claims[i] = c
		left++
	}
	return left
}

// gone returns what is closed when the claim on server i is gone; nil: none stands in the way.
func (b *Before) gone(i int) <-chan struct{} {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.claims[i]
	if c == nil {
		return nil
	}
	gone := c.Away()
	if gone == nil {
		delete(b.claims, i)
	}
	return gone
}

// Wait waits until nothing stands in the way on any server, until due at most, or until ctx ends.
func (b *Before) Wait(ctx context.Context, due time.Time) {
	b.mu.Lock()
	servers := slices.Sorted(maps.Keys(b.claims)) // in order, as a simulation repeats it
	b.mu.Unlock()
	for _, i := range servers {
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
