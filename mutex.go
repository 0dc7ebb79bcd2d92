package redimutex

import (
	"context"
	"time"
)

// A Mutex is a [sync.Mutex] that every process sharing a Redis agrees on.
//
// It is safe for concurrent use: goroutines share it as they share a sync.Mutex, and any of them may unlock it. It must not be
// copied. Its zero value is not usable: make it with [New], [NewRedlock] or [Client.Mutex]. Goroutines of one [Client] wait in
// one line for each key, first come, first served. In the terminology of the Go memory model, the n'th call of Unlock of a key
// within a Client synchronizes before the m'th call of Lock, for n < m. Between processes the servers decide the order.
//
// Unlike a sync.Mutex it is held by a lease: it is locked for a limited time, which is renewed while the holder lives. A
// holder that is paused, or cut off from the servers, for longer than that loses the lock. [Lease.Done] and the context of
// [Mutex.Do] report a loss as early as it can be known; see the package documentation.
type Mutex struct {
	exclusive
	taking takings
}

// New returns a Mutex for key on one Redis server. It is short for NewClient([]Pool{pool}, opts...).Mutex(key), and
// panics for the same reasons. A program with many keys should share one [Client].
func New(pool Pool, key string, opts ...Option) *Mutex {
	return NewClient([]Pool{pool}, opts...).Mutex(key)
}

// NewRedlock returns a Mutex for key on N independent Redis servers, of which a majority has to agree
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/). It is short for
// NewClient(pools, opts...).Mutex(key), and panics for the same reasons.
func NewRedlock(pools []Pool, key string, opts ...Option) *Mutex {
	return NewClient(pools, opts...).Mutex(key)
}

// An exclusive is an object with one hold at a time: a Mutex, or the writer of an RWMutex. Both embed it for its methods.
type exclusive struct{ object }

// Lock locks m; of an RWMutex, for writing. It blocks until it has the lock. It tries again after temporary errors: those of
// the network, and of servers that start, fail over, are busy or full. It logs them, at most once a second for each key.
//
// A [sync.Locker] cannot return an error, so Lock panics when waiting cannot help: at a permanent error, with the words of the
// server; when the Client is closed; and when [WithMaxAttempts] is used up. The permanent errors are a fixed list (such as a
// password, a permission, a key of another type, a server without scripts, a *redis.Pool that was closed). All other errors
// are temporary. Use LockContext if you don't want a panic.
func (m *exclusive) Lock() {
	if _, err := m.acquire(context.Background(), 0); err != nil {
		panic(err)
	}
}

// LockContext locks m. It gives up when ctx ends, or after timeout if that is more than 0. With a timeout of 0 only ctx ends
// the wait; if ctx never ends, LockContext waits for ever. With a timeout below 0 it tries once, as [Mutex.TryLockContext]
// does. The command line differs: there "redimutex run -w 0" tries once, as flock(1) does.
//
// The error matches
//   - [ErrLocked] and [context.DeadlineExceeded] when time ran out while another held the lock;
//   - [ErrLocked] alone when a single try, or the last of [WithMaxAttempts], found the lock held;
//   - [ErrLocked] alone, at once, when ctx comes from a [Mutex.Do] that holds this key of these pools: it would never end;
//   - the cause of ctx, and ctx.Err(), when ctx was cancelled;
//   - [ErrUnavailable], with a [NodeError] for each server that failed, when time or the tries ran out while too few servers
//     answered;
//   - [NodeError] alone, at once, at a permanent error (see [Mutex.Lock]);
//   - [ErrClosed] when the Client is closed.
//
// After an error the lock is not held, even if the servers granted it at the very moment when ctx ended. What a try left on a
// server is removed in the background.
func (m *exclusive) LockContext(ctx context.Context, timeout time.Duration) error {
	_, err := m.acquire(ctx, timeout)
	return err
}

// Acquire is LockContext(ctx, 0), and returns the hold. It is for code in which Lock and Unlock are far from each other:
// [Lease.Release] ends this hold and no other. [Mutex.Lease] returns it too, and [Mutex.Unlock] ends it.
func (m *exclusive) Acquire(ctx context.Context) (*Lease, error) { return m.acquire(ctx, 0) }

// Unlock unlocks m. It panics if m is not locked, as [sync.Mutex.Unlock] does. It logs other errors of [Mutex.UnlockContext].
func (m *exclusive) Unlock() { m.unlocked("Unlock", m.UnlockContext(context.Background())) }

// UnlockContext unlocks m. Whatever it returns, m is then unlocked in this process. Other processes can lock it after the
// release, or at the latest when the key has expired.
//
// If ctx has already ended, the release is still sent, and has one node timeout. If ctx ends during the release, UnlockContext
// returns, and the release goes on in the background. But it waits for a Trace.Lost that is running, for at most one node
// timeout. After [Client.Close] nothing runs in the background: the release has one node timeout, even if ctx ends.
//
// The error matches
//   - [ErrUnlocked] when m was not locked;
//   - [ErrLost] when the lease had ended before: the work under the lock may have overlapped with another holder's. See
//     [WithLeaseReuse] for an Unlock that does not ask the servers;
//   - [ErrUnavailable] when too few servers answered, or a [NodeError] alone when they refused;
//   - the cause of ctx, if ctx ended the wait.
func (m *exclusive) UnlockContext(ctx context.Context) error {
	must(m.client != nil, zeroValue)
	if l := m.hold.Load(); l != nil {
		return l.unlock(ctx, "Unlock")
	}
	return unlockedError(m.key, "Unlock of a Mutex or RWMutex value that holds nothing")
}

// Lease returns the current hold, or nil while m is unlocked. A lost lease is returned until Unlock.
func (m *exclusive) Lease() *Lease {
	if l := m.hold.Load(); l != nil && l.end.Load() == nil {
		return l
	}
	return nil
}
