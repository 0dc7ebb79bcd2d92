// Package server speaks to one Redis server. It keeps the time limit of every operation (its bound), runs the scripts, sorts
// errors by what a caller can do about them, learns the server's clock, and cleans up after commands without an answer.
//
// The files, from the top down: lock.go and reply.go define what can be asked, and the answers. claim.go, extend.go,
// release.go and question.go begin operations: tries, extensions, releases and all others. operation.go runs an operation, and
// decides when its caller gives up. connection.go gets a connection for it from package conn. script.go and arguments.go send
// the commands. claim.go also knows what may still be executed for a token, and runner.go releases claims in the background.
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

// A Pool hands out connections.
type Pool = conn.Pool

// A Server is one vote: one pool of connections to one Redis server, or to one cluster or Sentinel-watched group that behaves
// as one. It is safe for concurrent use.
type Server struct {
	Source     *conn.Source // never changed
	Failed     atomic.Int64 // failed operations of locks, but for releases in the background and those cut short by their caller's ctx
	nodes      nodes
	operations sync.Pool       // of *operation
	running    underway.Count  // operations that have not ended, abandoned ones included
	runners    underway.Count  // the runners of nodes that have something to release
	background context.Context // the ctx of operations that no caller waits for; Close cancels it
	cancel     context.CancelFunc
	rtt        atomic.Int64 // smoothed time of a script; 0: not known
	scripted   atomic.Bool  // a script has worked, so a lock taken by a plain SET can be renewed
	oneByOne   atomic.Bool  // its connections take one command at a time
	demoted    atomic.Bool  // a replica has answered since the last Call
	unreleased atomic.Value // a string: the error of the last release that failed
	beside     atomic.Int64 // operations that use a connection dialled beside the pool

	mu       sync.Mutex          // guards the fields below
	released map[string][]*Claim // by key: released claims that may still be in the way of the next claim
	dialNext map[string]struct{} // keys whose next operation dials: the last one got no answer over a connection of the pool
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

// Close waits for the running operations, and then for one last release of each remaining claim. It takes d at most. Shortly
// before d is over it cancels the operations in the background that have no answer, so that nothing is sent later.
func (s *Server) Close(d time.Duration) {
	end := time.Now().Add(d)
	s.running.Wait(d / 2)
	s.nodes.close(end.Add(-d / 16))
	s.cancel()
	s.runners.Wait(time.Until(end))
}

func (s *Server) RTT() time.Duration { return time.Duration(s.rtt.Load()) } // 0 if it is not known

// MinSilence is the shortest silence of a server that is suspicious. For a slow server the limit is higher: see Silent.
const MinSilence = 20 * time.Millisecond

// Silent returns how long the server has owed an answer, if that is suspiciously long and an operation is waiting that will
// see the server recover; else 0. An operation that times out does not end the debt: the answer to another operation does. The
// last waiting operation also ends it, if its caller cancels the operation.
func (s *Server) Silent(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := now.Sub(s.owes); s.pending > 0 && d > max(MinSilence, 8*s.typical) {
		return d
	}
	return 0
}

// expect notes that one more operation, or one more claim behind a release, waits for the server. The caller holds s.mu.
func (s *Server) expect() {
	if s.owes.IsZero() {
		s.owes = time.Now()
	}
	s.pending++
}

// noteBegin notes that op begins. It makes op dial if the last operation on one of its keys got no answer: see connection.go.
func (s *Server) noteBegin(op *operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !op.aside {
		s.expect() // from now on, and not from op.began: op may have waited for a release first
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

const maxDialNext = 4096 // bounds the memory for keys that are never used again

// noteEnd notes the outcome of op. failed is the number of its requests that failed. silent: the server did not answer one of
// them. free: the pool had a free connection when op began. left: the caller cancelled op, or left before the turn of op came.
func (s *Server) noteEnd(op *operation, silent, left, free bool, failed int) {
	// Silence says nothing about the pool's connections if the caller had less time than the node timeout. Nor does it if op
	// may have waited for a connection. Silence over a fresh connection means that the server itself is silent.
	distrust := free && silent && !op.fresh.Load() && !op.endsWithCaller && s.Source.Dial != nil && !s.Source.Full()
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
	cut := left || failed > 0 && conn.Ended(op.Context) != nil // by the caller: this says nothing about the server
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
	if !silent && s.pending == 0 { // the debt of a silent server stays, so that the next operation sees the silence at once
		s.owes = time.Time{}
	}
}

// A released claim is in the way of the next claim on its keys until its release is answered. The Server remembers it, and a
// try waits for it: so a process never finds a lock held by its own old token. Settled claims are forgotten.

func (s *Server) setInTheWay(c *Claim, inTheWay bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range c.Keys {
		all := slices.DeleteFunc(s.released[key], func(other *Claim) bool { return other == c })
		if inTheWay {
			all = append(all, c)
		}
		s.released[key] = all
		if len(all) == 0 {
			delete(s.released, key)
		}
	}
}

// await waits until no released claim is in the way of next, but no longer than until due or until the caller leaves. It
// reports whether none is in the way. A claim that waits counts as an operation that waits for the server.
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
	if free && s.pending == 0 { // else the server still owes the answer
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
