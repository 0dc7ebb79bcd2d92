package redimutex

import (
	"context"
	"sync"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// An RWMutex is a [sync.RWMutex] that every process sharing a Redis agrees on: many readers have it at a time, or one
// writer. Like a [Mutex] it is a lease. Each hold of a reader has its own: it is renewed, and its loss is reported.
//
// It is phase-fair (Brandenburg and Anderson, "Spin-based reader-writer synchronization for multiprocessor real-time
// systems", 2010): while a writer waits, new readers wait. After a writer, all readers that wait enter before another
// writer does. So a waiting reader sees at most one writer begin, a waiting writer at most one phase of readers, and
// neither side starves. By polling, waiters show themselves by marks that expire; a waiter that dies delays the others
// until then. With [WithQueue] they are woken. A reader that dies delays a writer by its own TTL, whatever the TTLs of
// others.
//
// A plain Mutex on the same key, and a client in any language that uses SET NX PX, exclude both sides and are excluded
// by them. They wait in no phase: readers and writers that come all the time may starve them.
//
// A reader cannot become a writer: two that tried would wait for each other. A writer can become a reader, by
// [Lease.Downgrade].
//
// [WithFencing] gives each writer a fence above all before, and each reader that of the last writer: a resource that
// remembers the highest fence it has seen can refuse stale reads. It does not stop a late write of that writer itself.
// [WithMinHold] concerns writers. With [WithLeaseReuse] the readers of a Client share one lease on the server, and
// RLock does not ask the server while that is young. All other options concern both sides.
//
// An RWMutex is shared by goroutines, and must not be copied. Its zero value is of no use: make it by [NewRWMutex] or
// [Client.RWMutex].
//
// Lock, Unlock and the other methods without an R concern the writer. TryLock and TryLockContext do not count as
// waiting, so they delay no reader. With the ctx of an [RWMutex.RDo] of the same key, those that take a ctx are an error
// at once. After [Lease.Downgrade] there is no writer to unlock: RUnlock ends the hold.
type RWMutex struct {
	exclusive // the writer
	readers   object
	held      readHolds
}

var _ sync.Locker = (*RWMutex)(nil)

// NewRWMutex returns an RWMutex for key on one Redis server, with a [Client] of its own. It panics as [Client.RWMutex]
// does. A program with many keys should share one Client.
func NewRWMutex(pool Pool, key string, opts ...Option) *RWMutex {
	return NewClient([]Pool{pool}, opts...).RWMutex(key)
}

// RWMutex returns an RWMutex for key, with the options of the Client and those given here. RWMutexes of one Client with
// the same key exclude each other as those of different Clients do.
//
// It panics as [Client.Mutex] does, and if the Client has several servers: readers that have a majority each would have
// to meet every writer on a server that knows them, also after one of them has lost its data. Use one server, with
// [WithReplicas] against its loss.
func (c *Client) RWMutex(key string, opts ...Option) *RWMutex {
	mustBeKey("an RWMutex", key)
	must(len(c.pools) == 1,
		"RWMutex: is kept by one server, and this Client has %d: readers are not counted by majority; use a Client of one server (WithReplicas guards against its loss)", len(c.pools))
	m := new(RWMutex)
	config := c.own(c.config.of(server.Writer, server.Writer.Want), opts)
	m.init(c, config, key)
	m.readers.init(c, config.ofReaders(), key)
	m.reads, m.readers.reads = &m.held, &m.held
	return m
}

// ofReaders returns c, which is that of writers, for their readers.
func (c *config) ofReaders() *config {
	changed := c.of(server.Reader, server.Reader.Want)
	changed.terms.MinHold = 0
	if c.terms.Fence != server.NoFence {
		changed.terms.Fence = server.LastFence
	}
	return changed
}

// RLock locks m for reading. It waits, logs and panics as [Mutex.Lock] does. To learn of a loss while you read, use
// RDo or RAcquire.
//
// A goroutine must not call it while it reads already: a writer that came meanwhile waits for the first hold, and the
// second one for the writer. RDo with [WithReentrancy] nests.
func (m *RWMutex) RLock() {
	if err := m.RLockContext(context.Background(), 0); err != nil {
		panic(err)
	}
}

// TryRLock tries once to lock m for reading, and reports whether it succeeded. It fails while a writer waits. It does
// not count as waiting. It logs errors other than that the lock is taken.
func (m *RWMutex) TryRLock() bool {
	return m.readers.tried("TryRLock", m.TryRLockContext(context.Background()))
}

// RLockContext locks m for reading, within timeout and as long as ctx lasts. Both, and the errors, are those of
// [Mutex.LockContext].
func (m *RWMutex) RLockContext(ctx context.Context, timeout time.Duration) error {
	return m.held.add(m.readers.acquireWithin(ctx, timeout))
}

// TryRLockContext tries once to lock m for reading, without waiting. The errors are those of [Mutex.TryLockContext].
func (m *RWMutex) TryRLockContext(ctx context.Context) error { return m.held.add(m.TryRAcquire(ctx)) }

// RUnlock ends one of the holds that RLock, TryRLock and their variants with a ctx have made, or one of a writer that
// was downgraded. As with [sync.RWMutex] any goroutine may call it, once for each hold. A hold of RAcquire is ended by
// its Lease.
//
// It panics if there is none. It logs what [RWMutex.RUnlockContext] would return otherwise.
func (m *RWMutex) RUnlock() {
	m.readers.unlocked("RUnlock", m.RUnlockContext(context.Background()))
}

// RUnlockContext is RUnlock that returns the error: [ErrUnlocked] if there is no hold to end, and otherwise what
// [Mutex.UnlockContext] returns. If the lease of a reader was lost, the next call ends that one, and returns [ErrLost]:
// the other readers of m keep theirs.
func (m *RWMutex) RUnlockContext(ctx context.Context) error {
	m.readers.mustBeMade()
	ended := ctx.Err() != nil // a nil ctx panics before anything is changed
	for l := m.held.take(); l != nil; l = m.held.take() {
		if l.claim() { // else its Release was faster
			return l.release(ctx, ended)
		}
	}
	return unlockedError(m.key, "RUnlock")
}

// RDo locks m for reading, runs f and ends the hold, as [Mutex.Do] does for a writer. The ctx that f gets ends when the
// lease of this reader is lost.
//
// With [WithReentrancy] an RDo inside a Do or an RDo of the same key, with its ctx, runs inside that hold. Without, it
// is an error at once, which matches [ErrLocked].
func (m *RWMutex) RDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.readers.do(ctx, f, false)
}

// TryRDo tries once to lock m for reading. If that succeeds it runs f and ends the hold, as [RWMutex.RDo] does;
// otherwise it returns the error of [RWMutex.TryRLockContext].
func (m *RWMutex) TryRDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.readers.do(ctx, f, true)
}

// RAcquire locks m for reading as RLockContext(ctx, 0) does, and returns the hold, which [Lease.Release] ends.
func (m *RWMutex) RAcquire(ctx context.Context) (*Lease, error) {
	return m.readers.acquire(ctx, false)
}

// TryRAcquire tries once to lock m for reading, and returns the hold, which [Lease.Release] ends.
func (m *RWMutex) TryRAcquire(ctx context.Context) (*Lease, error) {
	return m.readers.acquire(ctx, true)
}

// RLocker returns a [sync.Locker] whose Lock and Unlock are RLock and RUnlock of m.
func (m *RWMutex) RLocker() sync.Locker { return (*rlocker)(m) }

type rlocker RWMutex

func (r *rlocker) Lock()   { (*RWMutex)(r).RLock() }
func (r *rlocker) Unlock() { (*RWMutex)(r).RUnlock() }
