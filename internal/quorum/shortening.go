package quorum

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// A Shortening is an extension to less. A server that has not answered it may execute it at any time: its deadline is
// by the server's clock, and that may be set back. Then it takes back what a later and longer extension has given. So
// such a server has no vote for one, until the lock is released or the answer comes after all.
//
//	under way ─ End → open ─ each server has answered, or was not asked → settled
//
// While it is under way, the keep-alive counts no more than it leaves.
type Shortening struct {
	home *Shortenings
	ttl  time.Duration
	open []bool // a server each
	over bool   // its call is
}

// Shortenings are those of one lock that a server may still execute. Most locks have none, and a nil one.
type Shortenings struct {
	mu   sync.Mutex
	list []*Shortening
}

// Begin says that an extension to ttl is about to be sent to so many servers.
func (a *Shortenings) Begin(ttl time.Duration, servers int) *Shortening {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &Shortening{home: a, ttl: ttl, open: slices.Repeat([]bool{true}, servers)}
	a.list = append(a.list, s)
	return s
}

// settle says that server i has executed it, or never will.
func (s *Shortening) settle(i int) {
	if s == nil {
		return
	}
	a := s.home
	a.mu.Lock()
	defer a.mu.Unlock()
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
	return slices.Contains(s.open, true)
}

// forget drops what is settled.
func (a *Shortenings) forget() {
	a.list = slices.DeleteFunc(a.list, func(s *Shortening) bool { return s.over && !slices.Contains(s.open, true) })
}

// Unsure returns the servers that may take back an extension to ttl which is sent from now on; nil: none.
func (a *Shortenings) Unsure(ttl time.Duration) (servers []bool) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.list {
		if !s.over || s.ttl >= ttl {
			continue
		}
		if servers == nil {
			servers = make([]bool, len(s.open))
		}
		for i, open := range s.open {
			servers[i] = servers[i] || open
		}
	}
	return servers
}

// Most returns the longest TTL, ttl at most, that a majority can give.
func (a *Shortenings) Most(ttl time.Duration) time.Duration {
	for {
		sure, all := 0, a.Unsure(ttl)
		for _, unsure := range all {
			if !unsure {
				sure++
			}
		}
		if sure >= len(all)/2+1 || len(all) == 0 {
			return ttl
		}
		ttl = a.below(ttl)
	}
}

// below returns the longest TTL of those that are shorter than ttl.
func (a *Shortenings) below(ttl time.Duration) (longest time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.list {
		if s.over && s.ttl < ttl {
			longest = max(longest, s.ttl)
		}
	}
	return longest
}

// Overtaken is the Failure of an extension that counts for less than it asked for, because one to less was under way.
func (q *Quorum) Overtaken() *Failure { return unavailable(len(q.nodes), errShortened) }

// errShortened is the failure of an extension on a server that may take it back.
var errShortened = errors.New("it may yet execute an Extend to less that it has not answered: no longer lease before Unlock")
