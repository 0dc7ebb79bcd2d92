// Package server speaks to one Redis server: it keeps the bound of every operation, runs the scripts, sorts errors by what a caller would do about them, learns the server's
// clock, and cleans up after commands whose outcome it never heard.
//
// The way of an operation, from the top down: lock.go and reply.go (what can be asked for, and answered), bound.go (who
// runs it, and when its caller gives up), try.go, plain.go, release.go, extend.go, question.go (what is said), session.go (a
// connection for it, from package conn), fresh.go (when that is a new one). claim.go knows what may still be executed for
// a token, and runner.go releases what no caller waits for. kind.go and lua/ are the kinds of locks.
package server

import (
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
	source *conn.Source
	nodes  nodes

	operations sync.Pool       // of *operation
	running    *underway.Count // operations that have not ended, those whose caller has gone as well

	silent   sync.Map     // keys whose last operation had no answer over a connection of the pool
	silences atomic.Int32 // how many they are
	scripted atomic.Bool  // a script has worked, so that whatever is locked can be renewed
	rtt      atomic.Int64

	mu      sync.Mutex
	demoted []func()
	ans     answers
}

// New returns the Server behind pool. It does not connect.
func New(pool Pool) *Server {
	s := &Server{source: conn.Of(pool), running: underway.New()}
	s.nodes.server, s.nodes.single.runner.server = s, s
	return s
}

// Close waits for the operations that run, and then for one last release of what is left; for d at most.
func (s *Server) Close(d time.Duration) {
	end := time.Now().Add(d)
	s.running.Wait(d / 2)
	s.nodes.close(end)
}

// RTT returns the smoothed round trip of a command; 0 if it is not known.
func (s *Server) RTT() time.Duration { return time.Duration(s.rtt.Load()) }

// heard takes in the time of one round trip.
func (s *Server) heard(d time.Duration) {
	old := s.rtt.Load()
	if old == 0 {
		s.rtt.Store(int64(max(d, 1)))
		return
	}
	s.rtt.Store(old + (int64(d)-old)/8) // one of two that come together may be lost
}

// OnDemotion has f called whenever a reply said that the server is read-only, so a replica now.
func (s *Server) OnDemotion(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.demoted = append(s.demoted, f)
}

// demotion tells those who want to know that the server is a replica.
func (s *Server) demotion() {
	s.scripted.Store(false) // the next primary may be another server
	s.mu.Lock()
	listeners := s.demoted
	s.mu.Unlock()
	for _, f := range listeners {
		f()
	}
}

// Source is the way to the connections of the server.
func (s *Server) Source() *conn.Source { return s.source }
