package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
)

// A listing goes through the keys of all servers in parallel. A key that one server has found is looked at on all servers at
// once, so that their views are of the same moment.
type listing struct {
	nodes   servers.Set
	pattern string
	all     bool
	limit   int  // 0: none
	whole   bool // look at all keys, whatever the limit

	slow chan string // servers whose answer is late

	mu       sync.Mutex      // of all below
	seen     map[string]bool // keys that were taken for locks, on any server
	locks    []*sight.Lock
	refused  int              // locks that this user may find, but not look at
	searches []inspect.Search // how far each server is
	errs     []error          // why each server can't be searched; nil: it can
}

// run searches until everything is seen, or until ctx ends. It then returns the cause of ctx, without waiting for an answer
// that may be under way.
func (l *listing) run(ctx context.Context, t *cli.Terminal) error {
	l.searches, l.errs = make([]inspect.Search, len(l.nodes)), make([]error, len(l.nodes))
	l.slow = make(chan string, len(l.nodes))
	done := make(chan struct{})
	var each sync.WaitGroup
	for i := range l.nodes {
		each.Go(func() { l.fail(ctx, i, l.search(ctx, i)) })
	}
	go func() {
		each.Wait()
		close(done)
	}()
	show := cli.NewProgress(t.Err)
	defer show.End()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-done:
			return nil
		case name := <-l.slow:
			show.Clear()
			t.Warn("waiting for %s, which has not answered for %v", name, patience)
		case <-show.Due():
			show.Show(l.progress())
		}
	}
}

// patience is how long a server may take to answer before run says that it waits for that server.
const patience = time.Second

// maxPause is long compared to the cost of a step on any server. If a step takes longer, the reason is the network, or other
// work of the server.
const maxPause = 50 * time.Millisecond

// search goes through the keys of one server. After each step it pauses for as long as the step took.
func (l *listing) search(ctx context.Context, i int) error {
	if err := l.nodes[i].Dial(ctx); err != nil { // its errors say whether TLS may be the reason
		return err
	}
	tell := sync.OnceFunc(func() { l.slow <- l.nodes[i].Name })
	f := inspect.Find(l.nodes[i].Server, l.pattern, l.all)
	for more := true; more && !l.full(); {
		began := time.Now()
		slow := time.AfterFunc(patience, tell)
		keys, err := f.Next(ctx, servers.DialTimeout)
		slow.Stop()
		if err != nil {
			return err
		}
		if err := l.look(ctx, l.unseen(i, f, keys)); err != nil {
			return err
		}
		more = !f.Done && cli.Rest(ctx, min(time.Since(began), maxPause))
	}
	return nil
}

// unseen notes how far a server is, and returns the keys that no server has found before.
func (l *listing) unseen(i int, f *inspect.Search, keys []string) (fresh []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.searches[i] = *f
	for _, key := range keys {
		if !l.seen[key] {
			l.seen[key] = true
			fresh = append(fresh, key)
		}
	}
	return fresh
}

// lookAtOnce is how many locks are looked at in one round trip.
const lookAtOnce = 100

// look looks at keys on all servers, and keeps those that are still locks.
func (l *listing) look(ctx context.Context, keys []string) error {
	for some := range slices.Chunk(keys, lookAtOnce) {
		if l.full() {
			break
		}
		views, err := sight.LookAll(ctx, l.nodes, some, 0, servers.DialTimeout)
		if err != nil {
			return err
		}
		l.mu.Lock()
		for _, v := range views {
			switch refused := func(s sight.Server) bool { return strings.HasPrefix(s.Error, "NOPERM") }; {
			case v.Agree > 0 && !l.enough():
				l.locks = append(l.locks, v)
			case slices.ContainsFunc(v.Servers, refused): // otherwise the lock has ended
				l.refused++
			}
		}
		l.mu.Unlock()
	}
	return nil
}

func (l *listing) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enough()
}

// enough reports whether the limit of locks is reached. The caller holds l.mu.
func (l *listing) enough() bool { return !l.whole && l.limit > 0 && len(l.locks) >= l.limit }

// fail notes the first error of a server, unless the search was interrupted.
func (l *listing) fail(ctx context.Context, i int, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	failures := servers.NodeErrors(err)
	if len(failures) == 0 { // otherwise too few servers could be looked at
		failures = []*redimutex.NodeError{{Node: i, Err: err}}
	}
	for _, e := range failures {
		if l.errs[e.Node] == nil {
			l.errs[e.Node] = e
		}
	}
}

// inventory returns what was found so far.
func (l *listing) inventory() *inventory {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &inventory{
		Complete: !l.enough(),
		Asked:    l.nodes.Names(),
		Locks:    []*sight.Lock{},
		Errors:   []listError{},
		limited:  l.enough(),
		failure:  errors.Join(l.errs...),
	}
	for _, lock := range l.locks {
		lock.Holders, lock.Queue, lock.Looked = nil, nil, nil // only show prints them
		r.Locks = append(r.Locks, lock)
	}
	r.Refused, r.Complete = l.refused, r.Complete && l.refused == 0
	for _, s := range l.searches {
		r.seen += s.Seen
		r.Refused += s.Refused
		r.Complete = r.Complete && s.Done && s.Refused == 0
	}
	for _, e := range servers.NodeErrors(r.failure) {
		r.Complete = false
		r.Errors = append(r.Errors, listError{l.nodes[e.Node].Address, l.nodes[e.Node].Name, servers.Words(e.Err)})
	}
	return r
}

// progress returns a line that says how far the search is.
func (l *listing) progress() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	passed, total := 0, 0
	for _, s := range l.searches {
		passed += s.Passed
		total += s.Total
	}
	of := ""
	if total > 0 {
		of = fmt.Sprintf(" of %d", total)
		passed = min(passed, total)
	}
	return fmt.Sprintf("%d%s keys, %s; Ctrl-C prints what is found", passed, of, cli.Count(len(l.locks), "lock"))
}
