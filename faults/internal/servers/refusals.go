package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A class is what a caller can do about a refusal.
type class int

const (
	passes  class = iota // time fixes it: repeat
	forGood              // time does not fix it: say so at once
	unseen               // callers must not notice
)

// A refusal is a way in which a server does not execute a command.
type refusal struct {
	name  string
	class class
	words *regexp.Regexp // the server's; for a silent server, those of the library
	args  []string       // of the server
	needs []redistest.Feature
	debug bool // it needs DEBUG commands
	cold  bool // no connection is kept, because the server would not refuse those that exist
	login []any
	ready func(s *site) // prepares the server before any lock is taken
	// strike makes the server refuse, and returns the function that ends that.
	strike func(s *site, cells []*cell) (heal func())
}

// A site is a server that is about to refuse.
type site struct {
	t      testing.TB
	server *redistest.Server
	target atomic.Pointer[string] // the address to which new connections lead

	mu    sync.Mutex
	admin redis.Conn // connected before the server begins to refuse
}

// do runs a command of the operator.
func (s *site) do(command string, args ...any) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admin.Do(command, args...)
}

// must is do for commands that can't fail.
func (s *site) must(command string, args ...any) any {
	reply, err := s.do(command, args...)
	if err != nil {
		s.t.Fatalf("%s %v: %v", command, args, err)
	}
	return reply
}

// newSite starts a server and connects its operator.
func newSite(t testing.TB, args ...string) *site {
	s := &site{t: t, server: redistest.Real(t, args...)}
	s.admin = s.connect()
	s.lead(s.server.Addr())
	return s
}

// lead leads new connections to an address.
func (s *site) lead(addr string) { s.target.Store(&addr) }

// connect makes another connection, which the end of the test closes.
func (s *site) connect() redis.Conn {
	c, err := redis.Dial("tcp", s.server.Addr())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// begin sends a command that is not answered soon.
func (s *site) begin(c redis.Conn, command string, args ...any) {
	if err := errors.Join(c.Send(command, args...), c.Flush()); err != nil {
		s.t.Fatal(err)
	}
}

// refusalMatrix plays some refusals at a time, each with a server of its own.
func refusalMatrix(s *evidence.Scene) {
	var mu sync.Mutex
	f, met := evidence.Figure{Library: evidence.Ours}, 0
	var unmet []string
	for q := s.Quota(1, 5); q.More(); q.Done++ {
		room := make(chan struct{}, 5)
		var each sync.WaitGroup
		for _, what := range refusals {
			room <- struct{}{}
			each.Go(func() {
				defer func() { <-room }()
				var problems []string
				var n, struck int
				err := evidence.Stage(s.Context(), func(t testing.TB) { problems, n, struck = what.conduct(t, nil) })
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, evidence.ErrSkipped) {
					s.Note("%s: %v.", what.name, err)
					return
				}
				if err != nil {
					problems = append(problems, err.Error())
				}
				n = max(n, 1)
				met, f.Tried, f.Held = met+struck, f.Tried+n, f.Held+n-min(len(problems), n)
				if len(problems) > 0 {
					s.Note("%s: %s.", what.name, strings.Join(problems[:min(len(problems), 3)], "; "))
				}
				if struck == 0 && what.class != unseen {
					unmet = append(unmet, what.name)
				}
			})
		}
		each.Wait()
	}
	slices.Sort(unmet)
	f.Worst = fmt.Sprintf("%d false holds or untyped errors", f.Tried-f.Held)
	if len(unmet) > 0 {
		f.Held = min(f.Held, f.Tried-1)
		s.Note("No operation has met these, so nothing was shown: %q.", unmet)
	}
	s.Figure(f)
	s.Note("%d refusals, times %d operations, times %d features. %d operations of %d have ended with the server's words; "+
		"the others went through, or were repeated until they did.", len(refusals), len(verbs), len(single), met, f.Tried)
}

// conduct plays one refusal: locks are taken, the server begins to refuse, all operations are tried, the server recovers, and
// all operations have to work again. It returns what was wrong, how many operations there were, and how many met the refusal.
// wrap, if not nil, comes between the locks and the server.
func (r *refusal) conduct(t testing.TB, wrap func(peers.Dialer) peers.Dialer) (problems []string, n, met int) {
	redistest.Needs(t, r.needs...)
	args := slices.Clone(r.args)
	if r.debug {
		args = append(args, redistest.Debugging()...)
	}
	s := newSite(t, args...)
	if r.ready != nil {
		r.ready(s)
	}
	through := func(ctx context.Context) (c net.Conn, err error) { return peers.To(*s.target.Load())(ctx) }
	if wrap != nil {
		through = wrap(through)
	}
	var cells []*cell
	for _, f := range single {
		f.cold, f.login = r.cold, r.login
		c := f.client(t, []peers.Dialer{through}, heldTTL)
		for _, v := range verbs {
			x, err := newCell(c, f.name, v)
			if err != nil {
				t.Fatal(err)
			}
			cells = append(cells, x)
		}
	}
	heal := r.strike(s, cells)
	for _, x := range cells {
		x.begin()
	}
	for _, x := range cells {
		x.struck(r)
	}
	early := map[*cell]bool{}
	for _, x := range cells {
		early[x] = x.over()
	}
	heal()
	var mu sync.Mutex
	var each sync.WaitGroup
	for _, x := range cells {
		each.Go(func() {
			wrong := x.finish(r, s, early[x])
			mu.Lock()
			defer mu.Unlock()
			problems = append(problems, wrong...)
			if x.met(r) {
				met++
			}
		})
	}
	each.Wait()
	return problems, len(cells), met
}

// finish waits for the end of the operation and returns what was wrong with it. early says that the operation was over before
// the refusal was.
func (x *cell) finish(r *refusal, s *site, early bool) (problems []string) {
	timer := time.NewTimer(forever)
	defer timer.Stop()
	select {
	case <-x.done:
	case <-timer.C:
		return []string{fmt.Sprintf("%s: still blocked %v after the refusal was over", x, forever)}
	}
	for _, problem := range []string{x.verdict(r), x.truth(s)} {
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	if x.verb.name == "Lock" && r.class == forGood && !early {
		problems = append(problems, fmt.Sprintf("%s: waits for what time can't fix", x))
	}
	if problem := x.again(r, s); problem != "" {
		problems = append(problems, problem)
	}
	return problems[:min(len(problems), 1)] // one problem for each cell, so that they can be counted
}
