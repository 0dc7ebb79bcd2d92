package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/server"
)

// ErrResigned is the cause of the end of a leader's ctx after [Election.Resign].
var ErrResigned = errors.New("election: resigned")

// An Election is one candidate, or an observer. Make it by [New]. It is safe for concurrent use. Nothing runs in it outside
// Run and Observe.
type Election struct {
	client  *redimutex.Client
	mutex   *redimutex.Mutex
	servers []*server.Server
	running atomic.Bool
	lead    atomic.Pointer[lead] // while f runs
}

// New returns an Election over key, which is also the key of the lock. Others see name as [Leader.Owner] when this candidate
// leads; an observer needs no name. Candidates of one process may share a Client.
//
// The options are those of the lock. The most important is [redimutex.WithTTL]: after a leader has crashed, no candidate leads
// for at most that time. WithFencing is always on. So is WithQueue, unless the Client has several servers.
//
// WithOwner changes nothing, because the owner is name; nor does WithLeaseReuse, which WithFencing turns off. New panics if
// client is nil, and for the reasons of [redimutex.Client.Mutex].
func New(client *redimutex.Client, key, name string, opts ...redimutex.Option) *Election {
	must(client != nil, "the Client is nil")
	opts = append(slices.Clone(opts), redimutex.WithFencing(), redimutex.WithOwner(name))
	if len(client.Pools()) == 1 {
		opts = append(opts, redimutex.WithQueue())
	}
	e := &Election{client: client, mutex: client.Mutex(key, opts...)}
	for _, p := range client.Pools() {
		e.servers = append(e.servers, server.New(p))
	}
	return e
}

// Run is a candidate until ctx ends. It waits in the queue for the lead, and runs f while it leads. When f has returned, Run
// gives the lead to the next candidate and waits again, at the end of the queue.
//
// The ctx of f ends when ctx does; when the lead is lost, with a cause that matches [redimutex.ErrLost]; and after
// [Election.Resign], with [ErrResigned]. f must stop then: another candidate leads soon, or already. The lead is not given
// away before f has returned. While f runs on after a loss, this process is no candidate. If this process never leads, f is
// not called.
//
// An error of f after its lead was lost or resigned is ignored. Any other error of f ends Run, which returns it unchanged.
// This includes the error of an f that was told to stop because ctx has ended.
//
// Otherwise Run returns an error that matches the cause of ctx, or says why it can't be a candidate. These are the errors of
// [redimutex.Mutex.LockContext]: the Client is closed, the server refuses for good, or the tries of WithMaxAttempts are used
// up. With WithReentrancy, the ctx of a [redimutex.Mutex.Do] that holds this very lock is an error too.
//
// Run panics if it runs already: make an Election for each candidate.
func (e *Election) Run(ctx context.Context, f func(ctx context.Context) error) error {
	must(f != nil, "Run needs a function, and got nil")
	must(e.running.CompareAndSwap(false, true), "Run is running already; make an Election for each candidate")
	defer e.running.Store(false)
	for {
		if err := e.campaign(ctx, f); err != nil {
			return err
		}
	}
}

// campaign waits for one lead, and serves it. It returns nil if the candidate is to stand again. A loss counts only if f could
// know of it: if only the release finds the loss, after f has returned, campaign ignores it.
func (e *Election) campaign(ctx context.Context, f func(context.Context) error) error {
	var l *lead
	var own error
	err := e.mutex.Do(ctx, func(held context.Context) error {
		lease := e.mutex.Lease()
		if lease == nil { // WithReentrancy: the hold is that of an outer Do
			return fmt.Errorf("election: the ctx of Run is that of a Do that holds %q already; use another ctx", e.mutex.Key())
		}
		l = &lead{lease: lease}
		l.Context, l.cancel = context.WithCancelCause(held)
		own = e.serve(l, f)
		return nil
	})
	if l == nil {
		return err
	}
	return own
}

// serve writes the record of the leader, and runs f. A majority has the record before f begins, so observers can see every
// leader. An error after the lead was lost or resigned is ignored.
func (e *Election) serve(l *lead, f func(context.Context) error) error {
	var telling sync.WaitGroup
	defer telling.Wait()
	defer l.cancel(nil)
	r, ok := e.record(l.lease)
	if !ok {
		return nil
	}
	err := e.tell(l, r)
	if err == nil {
		telling.Go(func() { e.repeat(l, r) })
		defer e.lead.Store(nil)
		e.lead.Store(l)
		err = f(l)
	}
	l.look()
	// Both conditions: the ctx of Run may have ended because another lock was lost.
	lost := errors.Is(context.Cause(l.Context), redimutex.ErrLost) && errors.Is(l.lease.Err(), redimutex.ErrLost)
	if lost || l.resigned.Load() {
		return nil
	}
	return err
}

// record returns the record of a lease. ok is false if the lease is lost.
func (e *Election) record(lease *redimutex.Lease) (r record, ok bool) {
	for _, info := range e.client.Locks() {
		if info.Key == e.mutex.Key() && info.Fence == lease.Fence() { // not a MutexAll that lost it without noticing
			return record{term: lease.Fence(), ttl: info.TTL, token: lease.Token()}, true
		}
	}
	return record{}, false
}

// Resign ends the lead, if this candidate has it. The ctx of f ends, with [ErrResigned] as its cause. When f has returned, the
// next candidate leads, and this one goes to the end of the queue. Resign does not wait for f, so f may call it. To stop being
// a candidate, end the ctx of Run.
func (e *Election) Resign() {
	if l := e.lead.Load(); l != nil {
		if l.Context.Err() == nil { // otherwise its end came first, and an error of f counts
			l.resigned.Store(true)
		}
		l.cancel(ErrResigned)
	}
}

// IsLeader reports whether this candidate leads: f runs, and its ctx has not ended. It asks no server. It looks at the clock,
// so it is right even in a process that has just woken up. A process can be paused between the question and the act. To keep
// out writes of an old leader, use the term, see [Term].
func (e *Election) IsLeader() bool {
	l := e.lead.Load()
	return l != nil && l.Err() == nil
}

// must panics with the sentence unless ok.
func must(ok bool, sentence string, args ...any) {
	if !ok {
		panic("election: " + fmt.Sprintf(sentence, args...))
	}
}

// A pace says how often to ask the servers about a leader, and how long to wait for them.
type pace struct {
	poll, timeout time.Duration
	patience      time.Duration // time without an answer after which a leader may have been replaced
}

// paceOf returns the pace at which a change is seen within the ttl of the old leader. The look that misses the change, the
// wait and the next look together take less than ttl.
func paceOf(ttl time.Duration) pace {
	p := pace{poll: min(ttl/8, time.Second), timeout: min(ttl/4, time.Second)}
	p.patience = ttl - p.poll - p.timeout
	return p
}
