package quorum

import (
	"errors"
	"math"
	"slices"
	"sync"
	"time"
)

// A Shortening is an extension to less. A server that has not answered it may execute it at any time: its deadline is
// by the server's clock, and that may be set back. Then it takes back what a later and longer extension has given. So
// such a server has no vote for one, until the lock is released or the answer comes after all.
//
//	under way ─ End → open ─ each server's call is over, or was not made → settled
//
// While it is under way, the keep-alive counts no more than it leaves. What a server's call leaves unanswered counts
// until the lock is released.
type Shortening struct {
	home *Shortenings
	ttl  time.Duration
	open []bool // a server each: its call is not over
	lost bool   // a server's call is over without an answer
	over bool   // the call to all of them is over
}

// Shortenings are those of one lock that a server may still execute. Most locks have none, and a nil one.
type Shortenings struct {
	mu   sync.Mutex
	list []*Shortening
	lost []time.Duration // a server each: the shortest that it will never answer; nil: there are none
}

// unlimited is the TTL of no Shortening.
const unlimited = time.Duration(math.MaxInt64)

// Begin says that an extension to ttl is about to be sent to so many servers.
func (a *Shortenings) Begin(ttl time.Duration, servers int) *Shortening {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &Shortening{home: a, ttl: ttl, open: slices.Repeat([]bool{true}, servers)}
	a.list = append(a.list, s)
	return s
}

// settle says that the call to server i is over. Unless the answer is lost, it has executed it, or never will.
func (s *Shortening) settle(i int, lost bool) {
	if s == nil {
		return
	}
	a := s.home
	a.mu.Lock()
	defer a.mu.Unlock()
	if lost {
		s.lost = true
		if a.lost == nil {
			a.lost = slices.Repeat([]time.Duration{unlimited}, len(s.open))
		}
		a.lost[i] = min(a.lost[i], s.ttl)
	}
	s.open[i] = false
	a.forget()
}

// End says that its call is over. It reports whether a server may still execute it.
func (s *Shortening) End() (open bool) {
	a := s.home
	a.mu.Lock()
	defer a.mu.Unlock()
	s.over = true
	a.forget()
	return s.lost || slices.Contains(s.open, true)
}

// forget drops what is settled. The caller holds a.mu.
func (a *Shortenings) forget() {
	a.list = slices.DeleteFunc(a.list, func(s *Shortening) bool { return s.over && !slices.Contains(s.open, true) })
}

// Unsure returns the servers that may take back an extension to ttl which is sent from now on; nil: none.
func (a *Shortenings) Unsure(ttl time.Duration) (servers []bool) {
	least := a.least()
	if least == nil || slices.Min(least) >= ttl {
		return nil
	}
	for _, d := range least {
		servers = append(servers, d < ttl)
	}
	return servers
}

// Most returns the longest TTL, ttl at most, that a majority can give.
func (a *Shortenings) Most(ttl time.Duration) time.Duration {
	least := a.least()
	if least == nil {
		return ttl
	}
	slices.Sort(least)
	return min(ttl, least[(len(least)-1)/2]) // a majority can give so much
}

// least returns what each server may yet shorten to; nil: none does.
func (a *Shortenings) least() (ttls []time.Duration) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	ttls = slices.Clone(a.lost)
	for _, s := range a.list {
		if !s.over {
			continue
		}
		if ttls == nil {
			ttls = slices.Repeat([]time.Duration{unlimited}, len(s.open))
		}
		for i, open := range s.open {
			if open {
				ttls[i] = min(ttls[i], s.ttl)
			}
		}
	}
	return ttls
}

// Overtaken is the Failure of an extension that counts for less than it asked for, because one to less was under way.
func (q *Quorum) Overtaken() *Failure { return unavailable(len(q.nodes), errShortened) }

// errShortened is the failure of an extension on a server that may take it back.
var errShortened = errors.New("it may yet execute an Extend to less that it has not answered: there is no lease longer than that before Unlock")
