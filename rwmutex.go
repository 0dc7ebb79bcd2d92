package redimutex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/server"
)

// An RWMutex is a [sync.RWMutex] that every process sharing a Redis agrees on: many readers have it at a time, or one writer.
// Each hold, of a writer or of a reader, is a lease as with a [Mutex].
//
// It is phase-fair (Brandenburg and Anderson, "Spin-based reader-writer synchronization for multiprocessor real-time systems",
// 2010): while a writer waits, new readers wait. After a writer the waiting readers enter first, at most 1,000 of each Client.
// So each of these readers sees at most one writer begin while it waits. Between two waiting writers there is one phase of
// readers. Neither side starves.
//
// Waiting readers and writers leave marks on the server, which expire. Without [WithQueue] they poll, at least once a second;
// with it they are woken. A dead waiter delays the other side by a node timeout plus a poll interval or, with a queue, plus a
// second. A dead reader delays a writer by its own TTL, whatever the TTLs of other readers.
//
// A plain Mutex on the same key, and a client in any language that uses SET NX PX, exclude both sides and are excluded by
// them. They take part in no phase, so readers and writers that keep coming may starve them. In one Client, a writer waits in
// line behind a plain Mutex of the same key. While that Mutex waits, new readers of other Clients enter.
//
// A reader cannot become a writer: two that tried would wait for each other. [Lease.Downgrade] turns a writer into a reader.
//
// With [WithFencing] a writer's fence is above all earlier ones, and a reader has the fence of the last writer. A resource
// that remembers the highest fence it has seen can refuse stale reads. It can't refuse a late write of that writer.
//
// With [WithLeaseReuse] the readers of a Client share one lease. For the time d of that option, new readers don't ask the
// server. Writers of the Client follow each other in one lease, so a reader of another Client may see several of them begin.
// [WithMinHold] concerns writers only. All other options concern both sides.
//
// It is safe for concurrent use. It must not be copied, and its zero value is not usable: see [NewRWMutex], [Client.RWMutex].
//
// The methods without an R, such as Lock and Do, are for the writer. Inside an [RWMutex.RDo] of the same key, with its ctx,
// they return an error at once. TryLock, TryRLock and their variants do not count as waiting, so they delay neither side.
type RWMutex struct {
	exclusive // the writer
	readers   object
	held      readHolds
}

// NewRWMutex returns an RWMutex for key on one Redis server. It is short for
// NewClient([]Pool{pool}, opts...).RWMutex(key), and panics for the same reasons.
func NewRWMutex(pool Pool, key string, opts ...Option) *RWMutex {
	return NewClient([]Pool{pool}, opts...).RWMutex(key)
}

// RWMutex returns an RWMutex for key, with the options of the Client and those given here.
//
// It panics for the reasons of [Client.Mutex], and if the Client has several servers. Each reader would have a majority of its
// own. Every writer would have to meet every reader on a server that still knows the reader, even after a server has lost its
// data. Use one server, with [WithReplicas] against its loss.
func (c *Client) RWMutex(key string, opts ...Option) *RWMutex {
	c.mustBeKey("an RWMutex", key)
	must(len(c.pools) == 1,
		"RWMutex(%q): this Client has %d servers, and readers are not counted by majority; make it by a Client of one server (WithReplicas guards against its loss)", key, len(c.pools))
	writer := c.configured(c.config.of(server.Writer), opts)
	reader := writer.of(server.Reader)
	reader.terms.MinHold = 0
	if writer.terms.Fence != server.NoFence {
		reader.terms.Fence = server.LastFence
	}
	m := &RWMutex{
		exclusive: exclusive{object{client: c, config: writer, key: key}},
		readers:   object{client: c, config: reader, key: key},
	}
	m.reads, m.readers.reads = &m.held, &m.held
	return m
}

// RLock locks m for reading. It waits, logs and panics as [Mutex.Lock] does. RDo and RAcquire report a loss while you read.
//
// A goroutine that already reads must not call it. If a writer has come in between, the writer waits for the first hold, and
// the second RLock waits for the writer. RDo with [WithReentrancy] nests.
func (m *RWMutex) RLock() {
	if err := m.RLockContext(context.Background(), 0); err != nil {
		panic(err)
	}
}

// TryRLock tries once to lock m for reading, and reports whether it succeeded. If it has to ask the server, it fails while a
// writer waits. It logs errors other than [ErrLocked].
func (m *RWMutex) TryRLock() bool {
	return m.readers.tried("TryRLock", m.TryRLockContext(context.Background()))
}

// RLockContext locks m for reading. The ctx, the timeout and the errors are those of [Mutex.LockContext].
func (m *RWMutex) RLockContext(ctx context.Context, timeout time.Duration) error {
	return m.held.add(m.readers.acquire(ctx, timeout))
}

// TryRLockContext tries once to lock m for reading, without waiting. The errors are those of [Mutex.TryLockContext].
func (m *RWMutex) TryRLockContext(ctx context.Context) error { return m.held.add(m.TryRAcquire(ctx)) }

// RUnlock ends one hold that RLock, TryRLock or a variant of them with a ctx has made, or the hold of a downgraded writer. As
// with [sync.RWMutex] any goroutine may call it, once for each hold. It never ends a hold of RAcquire, which has its Lease.
// RUnlock panics if there is no hold to end. It logs other errors of [RWMutex.RUnlockContext].
func (m *RWMutex) RUnlock() { m.readers.unlocked("RUnlock", m.RUnlockContext(context.Background())) }

// RUnlockContext is RUnlock, and returns the error: [ErrUnlocked] if there is no hold to end, and otherwise what
// [Mutex.UnlockContext] returns. If a reader's lease was lost, the next call ends that hold and returns [ErrLost]. The other
// readers of m keep their holds.
func (m *RWMutex) RUnlockContext(ctx context.Context) error {
	must(m.readers.client != nil, zeroValue)
	_ = ctx.Err() // a nil ctx panics before anything is changed
	for l := m.held.take(); l != nil; l = m.held.take() {
		if claimed, err := l.release(ctx); claimed { // else its Lease.Release was faster
			return err
		}
	}
	return unlockedError(m.key, "RUnlock of an RWMutex value that has no reader")
}

// RDo locks m for reading, runs f and ends the hold, as [Mutex.Do] does for a writer. The ctx of f ends when the lease of this
// reader is lost. With [WithReentrancy] an RDo can run inside a Do as well as inside an RDo.
func (m *RWMutex) RDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.readers.do(ctx, f, 0)
}

// TryRDo is [RWMutex.RDo], but tries to lock m only once. If that fails, it returns the error of [Mutex.TryLockContext].
func (m *RWMutex) TryRDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.readers.do(ctx, f, tryOnce)
}

// RAcquire is RLockContext(ctx, 0), and returns the hold. [Lease.Release] ends that hold, and RUnlock never does.
func (m *RWMutex) RAcquire(ctx context.Context) (*Lease, error) { return m.readers.acquire(ctx, 0) }

// TryRAcquire is RAcquire, but tries only once. The errors are those of [Mutex.TryLockContext].
func (m *RWMutex) TryRAcquire(ctx context.Context) (*Lease, error) {
	return m.readers.acquire(ctx, tryOnce)
}

// RLocker returns a [sync.Locker] whose Lock and Unlock are RLock and RUnlock of m.
func (m *RWMutex) RLocker() sync.Locker { return (*rlocker)(m) }

type rlocker RWMutex

func (r *rlocker) Lock()   { (*RWMutex)(r).RLock() }
func (r *rlocker) Unlock() { (*RWMutex)(r).RUnlock() }

// Downgrade turns the writer of an [RWMutex] into a reader, in one step: no writer enters in between, and waiting readers
// enter too. The lease goes on, with its Token and Fence. Afterwards [RWMutex.Lease] is nil. [RWMutex.RUnlock],
// [Lease.Release] or the Do that made the hold ends it. [WithMinHold] no longer applies: the reader may leave at once.
//
// The error matches [ErrUnlocked] after the end of the hold, and [ErrLost] when the lease was lost; RUnlock is then still
// needed. With [ErrUnavailable], a [NodeError] alone, or the cause of ctx, the server may not have done it, but it counts as
// done: in this process the hold is a reader's, and other readers may have to wait for its end. A repeated call finds what the
// first one did. For any other Lease, Downgrade returns an error and changes nothing.
func (l *Lease) Downgrade(ctx context.Context) error {
	o := l.of
	if kind := o.config.terms.Kind; kind != server.Writer {
		return fmt.Errorf("redimutex: %q: Downgrade: only the lease of a writer of an RWMutex can be downgraded, and this is that of a %s", o.key, kind.Name)
	}
	_ = ctx.Err() // a nil ctx panics before anything is changed
	if errors.Is(l.Err(), ErrUnlocked) {
		return unlockedError(o.key, "Downgrade")
	}
	if !l.reader.Swap(true) {
		o.reads.downgraded(l)
	}
	r, f := l.hold.Downgrade(ctx)
	if err := l.reason(r); err != nil || f == nil {
		return err
	}
	return o.unsettled(ctx, f)
}

func (l *Lease) reads() bool { return l.reader.Load() || l.of.config.terms.Kind == server.Reader }

// readHolds are the holds of an RWMutex that RUnlock ends: first a lost one, because it protects no reader any more; then the
// oldest; and a downgraded one last, because its Lease.Release may be called instead. mu guards all of them.
type readHolds struct {
	mu                  sync.Mutex
	live, lost, writers []*Lease
}

// add records a hold that RLock has made. If err is not nil, it records nothing and returns err.
func (r *readHolds) add(l *Lease, err error) error {
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.hold.Reason() == keepalive.Alive {
		r.live = append(r.live, l)
	} else {
		r.lost = append(r.lost, l)
	}
	return nil
}

// downgraded records a writer that becomes a reader, and forgets earlier ones that their Release has ended.
func (r *readHolds) downgraded(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.of.hold.CompareAndSwap(l, nil)
	r.writers = append(slices.DeleteFunc(r.writers, func(l *Lease) bool { return l.end.Load() != nil }), l)
}

func (r *readHolds) lose(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.live, l); i >= 0 {
		r.live = slices.Delete(r.live, i, i+1)
		r.lost = append(r.lost, l)
	}
}

func (r *readHolds) take() *Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, holds := range []*[]*Lease{&r.lost, &r.live, &r.writers} {
		if len(*holds) > 0 {
			l := (*holds)[0]
			*holds = slices.Delete(*holds, 0, 1)
			return l
		}
	}
	return nil
}
