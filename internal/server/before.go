package server

import (
	"context"
	"time"
)

// A claim that was released stands in the way of the next one of its keys until its release was answered. So a Server
// remembers the last such claim of each key, and a try waits for it: our own release never stands in our own way. Only what
// is not settled is remembered.

// keep has the next claims of the keys of c wait for c.
func (s *Server) keep(c *Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range c.keys {
		s.released[key] = c
	}
}

// drop has no claim wait for c any more.
func (s *Server) drop(c *Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range c.keys {
		if s.released[key] == c {
			delete(s.released, key)
		}
	}
}

// Wait waits until no released claim of key is in the way of the next one, until due at most, or until ctx ends.
func (s *Server) Wait(ctx context.Context, key string, due time.Time) {
	s.await(ctx, &Lock{Key: key}, due)
}

// await is Wait for all keys of a lock, and reports whether none is in the way. One that waits counts as an operation that
// waits for the server.
func (s *Server) await(ctx context.Context, l *Lock, due time.Time) bool {
	c := s.inTheWay(l)
	if c == nil {
		return true
	}
	s.mu.Lock()
	s.waits(time.Now())
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending--
	}()
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for ; c != nil; c = s.inTheWay(l) {
		select {
		case <-c.Away():
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// inTheWay returns a released claim of another that is in the way of a lock, or nil.
func (s *Server) inTheWay(l *Lock) *Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.released) == 0 {
		return nil
	}
	for key := range l.keys {
		if c := s.released[key]; c != nil && &c.Lock != l {
			return c
		}
	}
	return nil
}
