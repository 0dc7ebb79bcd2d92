package quorum_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// A fake is a server that keeps the rules of internal/server in virtual time: every call returns
// within its bound, a try that reaches it after its deadline does nothing, and what a failed call may
// have left is undone.
type fake struct {
	running atomic.Int64 // goroutines of undos

	mu     sync.Mutex
	what   behaviour
	locks  map[string]hold
	fences map[string]int64
	queue  map[string]bool // names of tickets
	asked  map[string]int  // by operation
	undone []server.Release
}

type hold struct {
	token string
	until time.Time
}

// A behaviour says when, and whether, the server runs what it is asked; end is the bound of the call.
type behaviour func(op string, end time.Time, run func() server.Reply) server.Reply

func newFake() *fake {
	return &fake{
		locks: make(map[string]hold), fences: make(map[string]int64),
		queue: make(map[string]bool), asked: make(map[string]int),
	}
}

// hung is a server that does not answer.
func hung(_ string, end time.Time, _ func() server.Reply) server.Reply {
	time.Sleep(time.Until(end))
	return server.Reply{Err: errSilent, Open: end}
}

// cut is a server that can't be reached.
func cut(string, time.Time, func() server.Reply) server.Reply { return server.Reply{Err: errCut} }

var errCut = errors.New("connection refused")

// slow is a server that is far away.
func slow(d time.Duration) behaviour {
	return func(_ string, end time.Time, run func() server.Reply) server.Reply {
		sent := time.Now()
		if sent.Add(d).After(end) {
			return hung("", end, run)
		}
		time.Sleep(d / 2)
		reply := run()
		time.Sleep(d - d/2)
		reply.Sent = sent
		return reply
	}
}

// says is a server that refuses.
func says(err error) behaviour {
	return func(string, time.Time, func() server.Reply) server.Reply { return server.Reply{Err: err} }
}

// only has a behaviour for one operation.
func only(op string, what behaviour) behaviour {
	return func(name string, end time.Time, run func() server.Reply) server.Reply {
		if name == op {
			return what(name, end, run)
		}
		return run()
	}
}

func (f *fake) set(what behaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.what = what
}

func (f *fake) put(key, token string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locks[key] = hold{token, time.Now().Add(d)}
}

func (f *fake) get(key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holder(key).token
}

func (f *fake) left(key string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Until(f.holder(key).until)
}

func (f *fake) fence(key string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fences[key]
}

func (f *fake) setFence(key string, fence int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fences[key] = fence
}

func (f *fake) waits(ticket string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queue[ticket]
}

func (f *fake) times(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[op]
}

func (f *fake) undos() []server.Release {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.undone
}

// flush loses all data.
func (f *fake) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.locks)
	clear(f.fences)
}

// holder returns who has the key. The caller holds f.mu.
func (f *fake) holder(key string) hold {
	h := f.locks[key]
	if !time.Now().Before(h.until) {
		delete(f.locks, key)
		return hold{}
	}
	return h
}

// run has the server do something, as it behaves now.
func (f *fake) run(op string, end time.Time, do func() server.Reply) server.Reply {
	f.mu.Lock()
	f.asked[op]++
	what := f.what
	f.mu.Unlock()
	sent := time.Now()
	locked := func() server.Reply {
		f.mu.Lock()
		defer f.mu.Unlock()
		reply := do()
		reply.Sent = sent
		return reply
	}
	if what == nil {
		return locked()
	}
	return what(op, end, locked)
}

func from(start time.Time) time.Time {
	if start.IsZero() {
		return time.Now()
	}
	return start
}

func (f *fake) Acquire(ctx context.Context, t server.Try) server.Reply {
	end := from(t.Start).Add(t.Timeout + t.Replicas.Timeout)
	if ctx.Err() != nil {
		return server.Reply{Err: ctx.Err()}
	}
	reply := f.run("acquire", end, func() server.Reply {
		if time.Now().After(end) {
			return server.Reply{Err: errSilent}
		}
		if h := f.holder(t.Key); h.token != "" && h.token != t.Token {
			if t.Ticket.Name != "" {
				f.queue[t.Ticket.Name] = true
			}
			return server.Reply{Verdict: server.Held, Holder: h.token, Left: time.Until(h.until), Now: time.Now().UnixMicro()}
		}
		delete(f.queue, t.Ticket.Name)
		f.locks[t.Key] = hold{t.Token, time.Now().Add(t.TTL)}
		reply := server.Reply{Verdict: server.Done}
		if t.Fencing {
			reply.Fence = max(f.fences[t.Key]+1, time.Now().UnixMicro())
			f.fences[t.Key] = reply.Fence
		}
		return reply
	})
	if reply.Verdict == server.Failed {
		f.undo(&server.Release{Lock: t.Lock, Until: time.Now().Add(t.TTL)})
	}
	return reply
}

func (f *fake) Release(_ context.Context, r server.Release) server.Reply {
	reply := f.run("release", from(r.Start).Add(r.Timeout), func() server.Reply { return f.released(&r) })
	if reply.Verdict == server.Failed {
		reply.Undoing = f.undo(&r)
	}
	return reply
}

// released does a release. The caller holds f.mu.
func (f *fake) released(r *server.Release) server.Reply {
	delete(f.queue, r.Ticket.Name)
	switch h := f.holder(r.Key); h.token {
	case "":
		return server.Reply{Verdict: server.Missing}
	case r.Token:
		delete(f.locks, r.Key)
		return server.Reply{Verdict: server.Done}
	}
	return server.Reply{Verdict: server.Taken}
}

func (f *fake) Undo(r *server.Release) <-chan struct{} {
	f.mu.Lock()
	f.undone = append(f.undone, *r)
	f.mu.Unlock()
	return f.undo(r)
}

// undo releases in the background, until the server has answered.
func (f *fake) undo(r *server.Release) <-chan struct{} {
	copied, tried := *r, make(chan struct{})
	f.running.Add(1)
	go func() {
		defer f.running.Add(-1)
		for first := true; first || time.Now().Before(copied.Until); first = false {
			reply := f.run("undo", time.Now().Add(copied.Timeout), func() server.Reply { return f.released(&copied) })
			if first {
				close(tried)
			}
			if reply.Verdict != server.Failed {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return tried
}

func (f *fake) Raise(_ context.Context, l server.Lock, fence int64, _ time.Duration) server.Reply {
	return f.run("raise", time.Now().Add(l.Timeout), func() server.Reply {
		f.fences[l.Key] = max(f.fences[l.Key], fence)
		return server.Reply{Verdict: server.Done}
	})
}

// Extend does each lease of the batch by itself, and side by side.
func (f *fake) Extend(_ context.Context, batch []*server.Extension, report func(int, server.Reply)) {
	var each sync.WaitGroup
	for i, x := range batch {
		each.Go(func() {
			report(i, f.run("extend "+x.Key, time.Now().Add(x.Timeout+x.Replicas.Timeout), func() server.Reply {
				switch h := f.holder(x.Key); h.token {
				case "":
					return server.Reply{Verdict: server.Missing}
				case x.Token:
					f.locks[x.Key] = hold{x.Token, time.Now().Add(x.TTL)}
					return server.Reply{Verdict: server.Done}
				}
				return server.Reply{Verdict: server.Taken}
			}))
		})
	}
	each.Wait()
}

// Close waits for the undos.
func (f *fake) Close(d time.Duration) {
	for end := time.Now().Add(d); f.running.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}
