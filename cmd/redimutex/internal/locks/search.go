package locks

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
	"github.com/redimutex/redimutex/internal/server"
)

// A listing goes through the keys of all servers side by side. What one of them has come across is
// looked at on all of them at once, so that their views are of the same moment.
type listing struct {
	nodes   servers.Set
	pattern string
	all     bool
	limit   int  // 0: none
	whole   bool // look at all keys, whatever the limit

	mu       sync.Mutex
	seen     map[string]bool // keys that were taken for locks, on any server
	locks    []*sight.Lock
	searches []inspect.Search // how far each server is
	failed   []bool
	errs     []error
	limited  bool
}

// run searches until all is seen, or ctx ends, whose cause it returns. Then it does not wait for an
// answer that may be under way.
func (l *listing) run(ctx context.Context, show *cli.Progress) error {
	l.searches, l.failed = make([]inspect.Search, len(l.nodes)), make([]bool, len(l.nodes))
	done := make(chan struct{})
	var each sync.WaitGroup
	for i := range l.nodes {
		each.Go(func() { l.search(ctx, i) })
	}
	go func() {
		each.Wait()
		close(done)
	}()
	defer show.End()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-done:
			return nil
		case <-show.Due():
			show.Show(l.progress())
		}
	}
}

// maxPause is long beside what a step costs any server. What takes longer than this is the network, or the
// server's other work.
const maxPause = 50 * time.Millisecond

// search goes through the keys of one server. It pauses after each step for as long as that took.
func (l *listing) search(ctx context.Context, i int) {
	if err := l.nodes[i].Dial(ctx); err != nil { // its errors say what TLS may have to do with them
		l.fail(ctx, i, err)
		return
	}
	f := inspect.Find(server.New(l.nodes[i].Pool), l.pattern, l.all)
	for !f.Done && ctx.Err() == nil {
		began := time.Now()
		keys, err := f.Next(ctx, servers.DialTimeout)
		if err != nil {
			l.fail(ctx, i, err)
			return
		}
		l.mu.Lock()
		l.searches[i] = *f
		fresh := l.unseen(keys)
		l.mu.Unlock()
		if err := l.look(ctx, fresh); err != nil {
			l.fail(ctx, i, err)
			return
		}
		if l.full() || f.Done {
			return
		}
		pause := time.NewTimer(min(time.Since(began), maxPause))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// unseen returns the keys that no process has come across before. The caller holds l.mu.
func (l *listing) unseen(keys []string) (fresh []string) {
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

// look looks at keys on all servers, and takes those that are locks still.
func (l *listing) look(ctx context.Context, keys []string) error {
	for len(keys) > 0 && !l.full() {
		n := min(len(keys), lookAtOnce)
		views, err := sight.LookAll(ctx, l.nodes, keys[:n], 0)
		if err != nil {
			return err
		}
		keys = keys[n:]
		l.mu.Lock()
		for _, v := range views {
			switch {
			case v.Agree == 0: // it is over
			case l.enough():
				l.limited = true
			default:
				l.locks = append(l.locks, v)
			}
		}
		l.mu.Unlock()
	}
	return nil
}

func (l *listing) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.enough() {
		l.limited = true
	}
	return l.limited
}

// enough reports whether more locks than were found are not wanted. The caller holds l.mu.
func (l *listing) enough() bool { return !l.whole && l.limit > 0 && len(l.locks) >= l.limit }

// fail notes why a server can't be searched, unless it is only that we have been interrupted.
func (l *listing) fail(ctx context.Context, i int, err error) {
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if nested := servers.NodeErrors(err); len(nested) > 0 { // too few servers could be looked at
		for _, e := range nested {
			l.note(e.Node, e.Err)
		}
		return
	}
	l.note(i, err)
}

// note keeps the first error of each server. The caller holds l.mu.
func (l *listing) note(i int, err error) {
	if !l.failed[i] {
		l.failed[i] = true
		l.errs = append(l.errs, &redimutex.NodeError{Node: i, Err: err})
	}
}

// inventory returns what was found until now.
func (l *listing) inventory() *inventory {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &inventory{
		Complete: len(l.errs) == 0 && !l.limited,
		Asked:    l.nodes.Names(),
		Locks:    []*sight.Lock{},
		Errors:   []listError{},
		limited:  l.limited,
	}
	for _, lock := range l.locks {
		lock.Holders, lock.Queue, lock.Looked = nil, nil, nil // show has them
		r.Locks = append(r.Locks, lock)
	}
	for _, s := range l.searches {
		r.seen += s.Seen
		r.refused += s.Refused
		r.Complete = r.Complete && s.Done && s.Refused == 0
	}
	for _, err := range l.errs {
		for _, e := range servers.NodeErrors(err) {
			r.Errors = append(r.Errors, listError{l.nodes[e.Node].Address, servers.Words(e.Err)})
		}
	}
	return r
}

// progress says how far the search is.
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
