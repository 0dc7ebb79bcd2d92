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

// An RWMutex is a [sync.RWMutex] that every process sharing a Redis agrees on: many readers have it at a time, or one
// writer. Each hold, of a writer or of a reader, is a lease as with a [Mutex].
//
// It is phase-fair (Brandenburg and Anderson, "Spin-based reader-writer synchronization for multiprocessor real-time systems",
// 2010): while a writer waits, new readers wait. After a writer the waiting readers enter first, at most 1,000 of a Client. So
// each of these sees at most one writer begin, waiting writers have one phase of readers between them, and no side starves.
//
// Waiting readers and writers leave marks on the server, which expire. Without [WithQueue] they poll, at least once a
// second; with it they are woken. A dead waiter delays the other side for a node timeout, and for a poll interval or, with
// a queue, a second. A dead reader delays a writer by its own TTL, whatever the TTLs of others.
//
// A plain Mutex on the same key, and a client in any language that uses SET NX PX, exclude both sides and are
// excluded by them. They wait in no phase: readers and writers that keep coming may starve them. In one Client, a writer
// waits its turn behind a plain Mutex of the same key. While that Mutex waits, new readers of other Clients enter.
//
// A reader cannot become a writer: two that tried would wait for each other. A writer becomes a reader by [Lease.Downgrade].
//
// With [WithFencing] a writer's fence is above all before, and a reader's is the last writer's. A resource that
// remembers the highest fence it has seen can refuse stale reads. It does not stop a late write of that writer itself.
//
// With [WithLeaseReuse] the readers of a Client share one lease on the server, and while that is young they do not ask
// the server. Its writers follow one another in one lease: a reader of another Client may see several of them begin.
// [WithMinHold] concerns writers. All other options concern both sides.
//
// Goroutines share an RWMutex. It must not be copied, and its zero value is of no use: see [NewRWMutex], [Client.RWMutex].
//
// The methods without an R, such as Lock and Do, concern the writer. Inside an [RWMutex.RDo] of the same key, with its ctx,
// they are an error at once. TryLock, TryRLock and their variants do not count as waiting, so they delay neither side.
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
// It panics as [Client.Mutex] does, and if the Client has several servers. Readers with a majority each would have to
// meet every writer on a server that knows them, even after a server has lost its data. Use one server, with
// [WithReplicas] against its loss.
func (c *Client) RWMutex(key string, opts ...Option) *RWMutex {
	mustBeKey("an RWMutex", key)
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

// RLock locks m for reading. It waits, logs and panics as [Mutex.Lock] does. RDo and RAcquire tell of a loss while you read.
//
// A goroutine that reads already must not call it. If a writer has come meanwhile, it waits for the first hold, and
// the second hold waits for it. RDo with [WithReentrancy] nests.
func (m *RWMutex) RLock() {
	if err := m.RLockContext(context.Background(), 0); err != nil {
		panic(err)
	}
}

// TryRLock tries once to lock m for reading, and reports whether it succeeded. It fails while a writer waits, if
// it has to ask the server. It logs errors, unless the lock is taken.
func (m *RWMutex) TryRLock() bool {
	return m.readers.tried("TryRLock", m.TryRLockContext(context.Background()))
}

// RLockContext locks m for reading. The ctx, the timeout and the errors are those of [Mutex.LockContext].
func (m *RWMutex) RLockContext(ctx context.Context, timeout time.Duration) error {
	return m.held.add(m.readers.acquire(ctx, timeout))
}

// TryRLockContext tries once to lock m for reading, without waiting. The errors are those of [Mutex.TryLockContext].
func (m *RWMutex) TryRLockContext(ctx context.Context) error { return m.held.add(m.TryRAcquire(ctx)) }

// RUnlock ends one hold of RLock, TryRLock or one of their variants with a ctx; or that of a writer that was
// downgraded. As with [sync.RWMutex] any goroutine may call it, once for each hold. A hold of RAcquire is ended by
// its Lease. RUnlock panics if there is no hold to end. It logs other errors of [RWMutex.RUnlockContext].
func (m *RWMutex) RUnlock() { m.readers.unlocked("RUnlock", m.RUnlockContext(context.Background())) }

// RUnlockContext is RUnlock that returns the error: [ErrUnlocked] if there is no hold to end, and otherwise what
// [Mutex.UnlockContext] returns. If a reader's lease was lost, the next call ends that hold and returns [ErrLost].
// The other readers of m keep theirs.
func (m *RWMutex) RUnlockContext(ctx context.Context) error {
	must(m.readers.client != nil, zero)
	_ = ctx.Err() // a nil ctx panics before anything is changed
	for l := m.held.take(); l != nil; l = m.held.take() {
		if claimed, err := l.release(ctx); claimed { // else its Release was faster
			return err
		}
	}
	return unlockedError(m.key, "RUnlock of an RWMutex value that has no reader")
}

// RDo locks m for reading, runs f and ends the hold, as [Mutex.Do] does for a writer. The ctx of f ends when the
// lease of this reader is lost. With [WithReentrancy] an RDo runs inside a Do as well as an RDo.
func (m *RWMutex) RDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.readers.do(ctx, f, 0)
}

// TryRDo is [RWMutex.RDo] that tries once to lock m. It returns the error of [Mutex.TryLockContext] if that fails.
func (m *RWMutex) TryRDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.readers.do(ctx, f, once)
}

// RAcquire is RLockContext(ctx, 0) that returns the hold, which [Lease.Release] ends, and RUnlock never.
func (m *RWMutex) RAcquire(ctx context.Context) (*Lease, error) { return m.readers.acquire(ctx, 0) }

// TryRAcquire is RAcquire that tries once. The errors are those of [Mutex.TryLockContext].
func (m *RWMutex) TryRAcquire(ctx context.Context) (*Lease, error) {
	return m.readers.acquire(ctx, once)
}

// RLocker returns a [sync.Locker] whose Lock and Unlock are RLock and RUnlock of m.
func (m *RWMutex) RLocker() sync.Locker { return (*rlocker)(m) }

type rlocker RWMutex

func (r *rlocker) Lock()   { (*RWMutex)(r).RLock() }
func (r *rlocker) Unlock() { (*RWMutex)(r).RUnlock() }

// Downgrade makes the writer of an [RWMutex] a reader, in one step: no writer comes between, and the readers that
// wait enter too. The lease goes on, with its Token and Fence. Then [RWMutex.Lease] is nil, and [RWMutex.RUnlock] or
// [Lease.Release] ends the hold, or the Do that it is of. A [WithMinHold] ends with the writer: the reader may go at once.
//
// The error matches [ErrUnlocked] after the end of the hold, and [ErrLost] when the lease was lost; then RUnlock is
// needed all the same. With [ErrUnavailable], a [NodeError] alone, or the cause of ctx, it may not be done, and counts as
// done. In this process the hold is then a reader's, and other readers may have to wait for its end. A repeat finds what
// the first call did. For any other Lease it is an error that changes nothing.
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

// readHolds are the holds of an RWMutex that RUnlock ends. It ends a lost one first, because that protects no reader
// any more; then the oldest; and a downgraded one last, because its Release may be called as well.
type readHolds struct {
	mu                  sync.Mutex
	live, lost, writers []*Lease
}

// add takes in what RLock has made, unless there is an error, which it returns.
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

// downgraded takes in a writer that becomes a reader, and drops those that their Release has ended.
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
