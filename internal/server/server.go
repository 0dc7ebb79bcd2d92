// Package server speaks to one Redis server: it keeps the bound of every operation, runs the scripts, sorts errors by what
// a caller would do about them, learns the server's clock, and cleans up after commands whose outcome it never heard.
//
// The way of an operation, from the top down: lock.go and reply.go (what can be asked for, and answered), claim.go,
// extend.go, release.go, question.go (who asks: tries, extensions, releases, all else), operation.go (who runs it, and when
// its caller gives up), connection.go (a connection for it, from package conn), script.go and arguments.go (what goes over
// that). claim.go also knows what may still be executed for a token, and runner.go releases what no caller waits for.
package server

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/underway"
)

// Pool is where connections come from.
type Pool = conn.Pool

// A Server is one vote: one pool of connections to one Redis server, or to one cluster or
// Sentinel-watched group that behaves as one. Its methods may be called from any goroutine.
type Server struct {
	Source     *conn.Source // it is not changed
	Failed     atomic.Int64 // failed operations of locks; without those that their caller's ctx cut short, and releases in the background
	nodes      nodes
	operations sync.Pool       // of *operation
	running    underway.Count  // operations that have not ended, also those that their caller has left
	runners    underway.Count  // those of the nodes that have something to release
	background context.Context // ends with Close, and what no caller waits for with it
	cancel     context.CancelFunc
	rtt        atomic.Int64 // smoothed time of a script; 0: not known
	scripted   atomic.Bool  // a script has worked, so that whatever is locked can be renewed
	oneByOne   atomic.Bool  // its connections take one command at a time
	demoted    atomic.Bool  // a replica has answered since the last Call
	unreleased atomic.Value // a string: why the last release that failed did
	beside     atomic.Int64 // operations that dial beside the pool

	mu       sync.Mutex
	released map[string][]*Claim // by key, those that may still be in the way of the next
	dialNext map[string]struct{} // keys whose next operation dials: the last one had no answer over a connection of the pool
	pending  int                 // operations of locks, and waits for a release, without an answer yet
	owes     time.Time           // since when the server has owed an answer; zero: it owes none
	typical  time.Duration       // smoothed time of an operation
}

// New returns the Server behind pool. It does not connect.
func New(pool Pool) *Server {
	s := &Server{Source: conn.Of(pool), released: make(map[string][]*Claim), dialNext: make(map[string]struct{})}
	s.nodes.server, s.nodes.single.runner.server = s, s
	s.nodes.cluster.Store(s.Source.Cluster)
	s.nodes.byName, s.nodes.bySlot, s.nodes.clocks = make(map[string]*node), make(map[uint16]*node), make(map[uint16]*clock)
	s.background, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close waits for the operations that run, and then for one last release of what is left; for d at most. What has had no
// answer shortly before that is cut short, so that nothing is sent later.
func (s *Server) Close(d time.Duration) {
	end := time.Now().Add(d)
	s.running.Wait(d / 2)
	s.nodes.close(end.Add(-d / 16))
	s.cancel()
	s.runners.Wait(time.Until(end))
}

func (s *Server) RTT() time.Duration { return time.Duration(s.rtt.Load()) } // 0 if it is not known

// MinSilence is how long a server may be silent before that is suspicious, if answers take no time.
const MinSilence = 20 * time.Millisecond

// Silent returns for how long the server has owed an answer, if that is suspiciously long and an operation is already waiting
// to see it recover; else 0. An operation that gives up leaves the debt as it is, until another one has an answer. But the
// last one that waits takes it along if its caller has cancelled it.
func (s *Server) Silent(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := now.Sub(s.owes); s.pending > 0 && d > max(MinSilence, 8*s.typical) {
		return d
	}
	return 0
}

// expect notes that an operation, or a claim behind a release, waits for an answer from now on. The caller holds s.mu.
func (s *Server) expect() {
	if s.owes.IsZero() {
		s.owes = time.Now()
	}
	s.pending++
}

// noteBegin notes that op begins. It has op dial where the last operation on the key had no answer over a connection of the
// pool (see connection.go).
func (s *Server) noteBegin(op *operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !op.aside {
		s.expect() // not since op.began: it may have waited for a release first
	}
	for i := range op.requests {
		key := op.requests[i].claim.Key
		if _, dials := s.dialNext[key]; dials {
			op.freshen()
			if op.fresh.Load() && (!op.aside || op.verb != release) {
				delete(s.dialNext, key)
			}
		}
	}
}

const maxDialNext = 4096 // bounds the memory that those keys cost which are never used again

// noteEnd notes what came of op, of whose requests so many failed. silent: the server did not answer one of them. free: the
// pool had a connection free when op began. left: the caller went away before op could begin.
func (s *Server) noteEnd(op *operation, silent, left, free bool, failed int) {
	// An operation says nothing of the pool's connections if its caller had less time than the node timeout, or if it may
	// have waited for its turn at the pool. One over a fresh connection says that it is the server that is silent.
	distrust := free && silent && !op.fresh.Load() && !op.callers && s.Source.Dial != nil && !s.Source.Full()
	s.mu.Lock()
	defer s.mu.Unlock()
	if distrust {
		if len(s.dialNext) >= maxDialNext {
			clear(s.dialNext)
		}
		for i := range op.requests {
			s.dialNext[op.requests[i].claim.Key] = struct{}{}
		}
	}
	cut := left || failed > 0 && conn.Ended(op.Context) != nil // by its caller, which says nothing of the server
	answered := !silent && !cut
	if answered {
		s.owes = time.Now()
	}
	if !op.aside {
		s.pending--
		if failed > 0 && !cut {
			s.Failed.Add(int64(failed))
		}
		if answered {
			took := s.owes.Sub(op.began)
			s.typical = cmp.Or(s.typical, took)
			s.typical += (took - s.typical) / 8
		}
	}
	if !silent && s.pending == 0 { // a silent server goes on owing, so that it is silent for the next operation at once
		s.owes = time.Time{}
	}
}

// A claim that was released stands in the way of the next one of its keys until its release was answered. So a Server
// remembers it, and a try waits for it: our own release never stands in our own way. Only what is not settled is remembered.

func (s *Server) setInTheWay(c *Claim, inTheWay bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range c.Keys {
		all := slices.DeleteFunc(s.released[key], func(other *Claim) bool { return other == c })
		if inTheWay {
			all = append(all, c)
		}
		if s.released[key] = all; len(all) == 0 {
			delete(s.released, key)
		}
	}
}

// await waits until no released claim is in the way of next, until due at most, or until ctx ends, and reports whether none
// is. A claim that waits counts as an operation that waits for the server.
func (s *Server) await(ctx context.Context, next *Claim, due time.Time) bool {
	s.mu.Lock()
	s.expect()
	waiting := s.pending
	s.mu.Unlock()
	leave, free := s.leaves(ctx, waiting), true
	for c := s.inTheWay(next); free && c != nil; c = s.inTheWay(next) {
		s.runner(c).expedite(c)
		c.mu.Lock()
		free = c.await(leave, due, func() bool { return c.state >= away })
		c.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending--
	if free && s.pending == 0 { // else it goes on owing
		s.owes = time.Time{}
	}
	return free
}

// inTheWay returns a released claim of another token that is in the way of next, or nil.
func (s *Server) inTheWay(next *Claim) *Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.released) == 0 {
		return nil
	}
	for key := range next.Keys {
		for _, c := range s.released[key] {
			if c != next {
				return c
			}
		}
	}
	return nil
}
