package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// MinSilence is how long a server may be silent before it is skipped, if answers take no time.
const MinSilence = 20 * time.Millisecond

type answers struct {
	mu      sync.Mutex
	failed  int64
	pending int
	since   time.Time
	typical time.Duration
	leaving map[string][]*Claim
}

func (s *Server) asks() time.Time {
	now := time.Now()
	s.ans.mu.Lock()
	defer s.ans.mu.Unlock()
	if s.ans.since.IsZero() {
		s.ans.since = now
	}
	s.ans.pending++
	return now
}

func (s *Server) answersTo(ctx context.Context, began time.Time, r *Reply) {
	now := time.Now()
	heard := !TimedOut(r.Err) && !r.Unasked
	s.ans.mu.Lock()
	defer s.ans.mu.Unlock()
	if r.Verdict == Failed && !r.Unasked && ctx.Err() == nil {
		s.ans.failed++
	}
	s.ans.pending--
	if !heard {
		return
	}
	s.ans.typical += (now.Sub(began) - s.ans.typical) / 8
	s.ans.since = now
	if s.ans.pending == 0 {
		s.ans.since = time.Time{}
	}
}

func (s *Server) Failed() int64 { s.ans.mu.Lock(); defer s.ans.mu.Unlock(); return s.ans.failed }

func (s *Server) Silent(now time.Time) time.Duration {
	s.ans.mu.Lock()
	defer s.ans.mu.Unlock()
	if s.ans.pending == 0 {
		return 0
	}
	if d := now.Sub(s.ans.since); d > max(MinSilence, 8*s.ans.typical) {
		return d
	}
	return 0
}

var errLateRelease = errors.New("no answer to the release before")

func (s *Server) register(c *Claim) {
	if c.Kind == Semaphore {
		return
	}
	s.ans.mu.Lock()
	defer s.ans.mu.Unlock()
	if s.ans.leaving == nil {
		s.ans.leaving = make(map[string][]*Claim)
	}
	for _, k := range append([]string{c.Key}, c.More...) {
		s.ans.leaving[k] = append(s.ans.leaving[k], c)
	}
}

func (s *Server) unregister(c *Claim) {
	s.ans.mu.Lock()
	defer s.ans.mu.Unlock()
	for _, k := range append([]string{c.Key}, c.More...) {
		if rest := slices.DeleteFunc(s.ans.leaving[k], func(o *Claim) bool { return o == c }); len(rest) > 0 {
			s.ans.leaving[k] = rest
		} else {
			delete(s.ans.leaving, k)
		}
	}
}

func (s *Server) before(c *Claim) <-chan struct{} {
	if c.Kind == Semaphore {
		return nil
	}
	s.ans.mu.Lock()
	var found []*Claim
	for _, k := range append([]string{c.Key}, c.More...) {
		for _, o := range s.ans.leaving[k] {
			if o != c && (c.Kind != Reader || !o.Kind.Shared || o.Waiter != nil) {
				found = append(found, o)
			}
		}
	}
	s.ans.mu.Unlock()
	for _, o := range found {
		if a := o.Away(); a != nil {
			return a
		}
	}
	return nil
}

// InTheWay notes that the claim is about to be released, so that the next try on its keys waits for that.
func (c *Claim) InTheWay() { c.server.register(c) }

// waitBefore reports whether nothing is in the way of c any more.
func (c *Claim) waitBefore(ctx context.Context, due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for {
		gone := c.server.before(c)
		if gone == nil {
			return true
		}
		select {
		case <-gone:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
