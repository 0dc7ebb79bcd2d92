package quorum

import (
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Votes are what the servers give for one lock: a claim on each.
type Votes struct {
	At    time.Time     // when the lock was given
	Valid time.Duration // from At
	Fence int64         // 0: none

	home   *Quorum
	single server.Claim    // of the only server
	claims []*server.Claim // of several
}

// Votes returns the Votes for a lock that is to be taken.
func (q *Quorum) Votes(l server.Lock) *Votes {
	v := &Votes{home: q}
	if len(q.nodes) == 1 {
		q.nodes[0].Claim(&v.single, l)
		return v
	}
	v.claims = make([]*server.Claim, len(q.nodes))
	for i, n := range q.nodes {
		v.claims[i] = new(server.Claim)
		n.Claim(v.claims[i], l)
	}
	return v
}

// claim returns the claim on server i.
func (v *Votes) claim(i int) *server.Claim {
	if v.claims == nil {
		return &v.single
	}
	return v.claims[i]
}

func (v *Votes) all(f func(*server.Claim)) {
	if v.claims == nil {
		f(&v.single)
		return
	}
	for _, c := range v.claims {
		f(c)
	}
}

// Claims is the number of claims.
func (v *Votes) Claims() int { return max(len(v.claims), 1) }

// Lock returns what the Votes are for.
func (v *Votes) Lock() *server.Lock { return &v.claim(0).Lock }

// Until returns when the validity ends.
func (v *Votes) Until() time.Time { return v.At.Add(v.Valid) }

// Spent reports whether the token must not be tried again.
func (v *Votes) Spent() bool {
	spent := false
	v.all(func(c *server.Claim) { spent = spent || c.Spent() })
	return spent
}

// Accept makes the votes those of a lock that the server has handed to its token, for so long.
func (v *Votes) Accept(valid time.Duration, fence int64) {
	v.At, v.Valid, v.Fence = time.Now(), valid, fence
	v.single.Entered()
}

// Waited has the release take back what shows that this process waits: others of this acquisition have left it.
func (v *Votes) Waited() { v.all((*server.Claim).Waited) }

// Unknown reports whether a server has not answered a try.
func (v *Votes) Unknown() bool {
	unknown := false
	v.all(func(c *server.Claim) { unknown = unknown || c.Unknown() })
	return unknown
}

// End has nothing more sent for the lock but its release.
func (v *Votes) End() { v.all((*server.Claim).End) }

// LeaveLater is ReleaseLater for a waiter. goesOn says that others of this process wait under the same mark.
func (v *Votes) LeaveLater(goesOn bool) {
	if goesOn {
		v.all((*server.Claim).KeepMark)
	}
	v.ReleaseLater(time.Time{})
}

// GiveUp leaves what the servers may have of the lock to its new token, or to expire.
func (v *Votes) GiveUp() { v.all((*server.Claim).GiveUp) }

// ReleaseLater releases the lock in the background; with keep it is left to expire then. After Close there is no
// background, and each server is asked once before this returns, all at the same time.
func (v *Votes) ReleaseLater(keep time.Time) {
	if v.claims == nil || !v.home.closing.Load() {
		v.all(func(c *server.Claim) { c.ReleaseLater(keep) })
		return
	}
	done := make(chan struct{})
	for _, c := range v.claims {
		go func() {
			c.ReleaseLater(keep)
			done <- struct{}{}
		}()
	}
	for range v.claims {
		<-done
	}
}

// WhenAway calls f for each claim that gets out of the way of the next lock. It returns how many are not yet.
func (v *Votes) WhenAway(f func()) (left int) {
	v.all(func(c *server.Claim) {
		if c.WhenAway(f) {
			left++
		}
	})
	return left
}
