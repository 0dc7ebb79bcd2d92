package redimutex

import (
	"context"
	"errors"
	"log/slog"
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
type RWMutex struct {
	writer  Mutex
	readers object
	held    readHolds
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
	m.writer.init(c, config, key)
	m.readers.init(c, config.ofReaders(), key)
	m.writer.reads, m.readers.reads = &m.held, &m.held
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

// Lock locks m for writing, as [Mutex.Lock] does.
func (m *RWMutex) Lock() { m.writer.Lock() }

// TryLock tries once to lock m for writing, as [Mutex.TryLock] does. It does not count as waiting, so it delays no
// reader.
func (m *RWMutex) TryLock() bool { return m.writer.TryLock() }

// LockContext locks m for writing, as [Mutex.LockContext] does. With the ctx of an [RWMutex.RDo] of the same key it is
// an error at once: a reader cannot become a writer.
func (m *RWMutex) LockContext(ctx context.Context, timeout time.Duration) error {
	return m.writer.LockContext(ctx, timeout)
}

// TryLockContext tries once to lock m for writing, as [Mutex.TryLockContext] does. It does not count as waiting.
func (m *RWMutex) TryLockContext(ctx context.Context) error { return m.writer.TryLockContext(ctx) }

// Unlock ends the hold of the writer, as [Mutex.Unlock] does. It panics if there is none, also after
// [Lease.Downgrade]: then RUnlock ends it.
func (m *RWMutex) Unlock() { m.writer.Unlock() }

// UnlockContext ends the hold of the writer, as [Mutex.UnlockContext] does.
func (m *RWMutex) UnlockContext(ctx context.Context) error { return m.writer.UnlockContext(ctx) }

// Do locks m for writing, runs f and unlocks m, as [Mutex.Do] does. An RDo inside f, with the ctx that f got, runs
// inside this hold if m has [WithReentrancy]. Inside RDo it is an error at once, with that option too: a reader cannot
// become a writer.
func (m *RWMutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.writer.Do(ctx, f)
}

// TryDo tries once to lock m for writing. If that succeeds it runs f and unlocks m, as [RWMutex.Do] does.
func (m *RWMutex) TryDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.writer.TryDo(ctx, f)
}

// Acquire locks m for writing and returns the hold, as [Mutex.Acquire] does.
func (m *RWMutex) Acquire(ctx context.Context) (*Lease, error) { return m.writer.Acquire(ctx) }

// TryAcquire tries once to lock m for writing and returns the hold, as [Mutex.TryAcquire] does.
func (m *RWMutex) TryAcquire(ctx context.Context) (*Lease, error) { return m.writer.TryAcquire(ctx) }

// Key returns the key of m on the server.
func (m *RWMutex) Key() string { return m.writer.key }

// Lease returns the current hold of the writer; nil while there is none, and after [Lease.Downgrade]. A lost lease is
// returned until Unlock.
func (m *RWMutex) Lease() *Lease { return m.writer.Lease() }

// Client returns the Client of m: the one that made it, or the one of its own that NewRWMutex has made.
func (m *RWMutex) Client() *Client { return m.writer.client }

// Logger returns where m logs what no return value can carry: see [WithLogger].
func (m *RWMutex) Logger() *slog.Logger { return m.writer.Logger() }

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
	err := m.TryRLockContext(context.Background())
	if err != nil && !errors.Is(err, ErrLocked) {
		m.Logger().Warn("redimutex: TryRLock", "key", m.Key(), "err", err)
	}
	return err == nil
}

// RLockContext locks m for reading, within timeout and as long as ctx lasts. Both, and the errors, are those of
// [Mutex.LockContext].
func (m *RWMutex) RLockContext(ctx context.Context, timeout time.Duration) error {
	if timeout < 0 {
		return m.TryRLockContext(ctx)
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return m.held.add(m.RAcquire(ctx))
}

// TryRLockContext tries once to lock m for reading, without waiting. The errors are those of [Mutex.TryLockContext].
func (m *RWMutex) TryRLockContext(ctx context.Context) error { return m.held.add(m.TryRAcquire(ctx)) }

// RUnlock ends one of the holds that RLock, TryRLock and their variants with a ctx have made, or one of a writer that
// was downgraded. As with [sync.RWMutex] any goroutine may call it, once for each hold. A hold of RAcquire is ended by
// its Lease.
//
// It panics if there is none. It logs what [RWMutex.RUnlockContext] would return otherwise.
func (m *RWMutex) RUnlock() {
	err := m.RUnlockContext(context.Background())
	switch {
	case err == nil:
	case errors.Is(err, ErrUnlocked):
		panic(err)
	default:
		m.Logger().Warn("redimutex: RUnlock", "key", m.Key(), "err", err)
	}
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
	return unlockedError(m.Key(), "RUnlock")
}

// RDo locks m for reading, runs f and ends the hold, as [Mutex.Do] does for a writer. The ctx that f gets ends when the
// lease of this reader is lost.
//
// With [WithReentrancy] an RDo inside a Do or an RDo of the same key, with its ctx, runs inside that hold. Without, it
// is an error at once, which matches [ErrLocked].
func (m *RWMutex) RDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.readers.do(ctx, f, m.RAcquire)
}

// TryRDo tries once to lock m for reading. If that succeeds it runs f and ends the hold, as [RWMutex.RDo] does;
// otherwise it returns the error of [RWMutex.TryRLockContext].
func (m *RWMutex) TryRDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.readers.do(ctx, f, m.TryRAcquire)
}

// RAcquire locks m for reading as RLockContext(ctx, 0) does, and returns the hold, which [Lease.Release] ends.
func (m *RWMutex) RAcquire(ctx context.Context) (*Lease, error) {
	return m.readers.acquire(ctx, false, nil)
}

// TryRAcquire tries once to lock m for reading, and returns the hold, which [Lease.Release] ends.
func (m *RWMutex) TryRAcquire(ctx context.Context) (*Lease, error) {
	return m.readers.acquire(ctx, true, nil)
}

// RLocker returns a [sync.Locker] whose Lock and Unlock are RLock and RUnlock of m.
func (m *RWMutex) RLocker() sync.Locker { return (*rlocker)(m) }

type rlocker RWMutex

func (r *rlocker) Lock()   { (*RWMutex)(r).RLock() }
func (r *rlocker) Unlock() { (*RWMutex)(r).RUnlock() }
