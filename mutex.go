package redimutex

import (
	"context"
	"sync"
	"time"
)

// A Mutex is a [sync.Mutex] that every process sharing a Redis agrees on.
//
// It is shared by goroutines as a sync.Mutex is, and must not be copied. Unlike with a sync.Mutex its zero
// value is of no use: make it by [New], [NewRedlock] or [Client.Mutex]. Goroutines of one [Client]
// queue inside the process, first come first served, and one of them at a time asks the servers.
// Any goroutine may unlock. In the terminology of the Go memory model, the n'th call of Unlock of a
// key within a Client synchronizes before the m'th call of Lock, for n < m. Between processes the
// order is that of the servers.
//
// Unlike a sync.Mutex it is a lease: it is locked for a time, which is renewed while the holder
// lives. A holder that was paused, or cut off from the servers, for longer than that has lost the
// lock, perhaps without noticing until it looks. [Lease.Done] and the context of [Mutex.Do] tell as
// early as can be told; see the package documentation for what that means.
type Mutex struct {
	exclusive
	taking takings
}

var _ sync.Locker = (*Mutex)(nil)

// New returns a Mutex for key on one Redis server, with a [Client] of its own. It is the short form
// of NewClient([]Pool{pool}, opts...).Mutex(key), and panics for the same reasons. A program with
// many keys should share one Client.
func New(pool Pool, key string, opts ...Option) *Mutex {
	return NewClient([]Pool{pool}, opts...).Mutex(key)
}

// NewRedlock returns a Mutex for key on N independent Redis servers, of which a majority has to
// agree (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), with a [Client]
// of its own. It panics as [NewClient] and [Client.Mutex] do.
func NewRedlock(pools []Pool, key string, opts ...Option) *Mutex {
	return NewClient(pools, opts...).Mutex(key)
}

// An exclusive is an object with one hold at a time: a Mutex, or the writer of an RWMutex. Its methods are theirs.
type exclusive struct{ object }

// Lock locks m; an RWMutex for writing. It blocks until it has the lock, and repeats what fails for reasons that pass:
// networks, servers that start, fail over, are busy or full. It logs those, for each key once in one to two
// seconds.
//
// A [sync.Locker] cannot return an error, so Lock panics when waiting cannot help: a server that refuses us
// for good (NOAUTH, NOPERM, WRONGTYPE and the like, in its own words), a Client that is closed, and
// [WithMaxAttempts] used up. Use LockContext where that is not what you want.
func (m *exclusive) Lock() {
	if _, err := m.acquire(context.Background(), false); err != nil {
		panic(err)
	}
}

// LockContext locks m, and gives up when timeout is over, if that is more than 0, or when ctx ends.
// A timeout below 0 tries once, as [Mutex.TryLockContext] does; 0 leaves the end to ctx, and waits for ever if ctx has
// none. Mind the command line: there "redimutex run -w 0" tries once, as flock(1) does.
//
// The error matches
//   - [ErrLocked] and [context.DeadlineExceeded] when time ran out while another held the lock,
//     and ErrLocked alone when [WithMaxAttempts] is used up, and, at once, when ctx is that of a [Mutex.Do] which
//     holds the same key of the same Client: its wait would never end;
//   - the cause of ctx, and ctx.Err(), when ctx was cancelled;
//   - [ErrUnavailable], with a [NodeError] for each server that failed, when time ran out while too
//     few servers answered;
//   - [NodeError] alone, at once, when servers refuse what no waiting can fix;
//   - [ErrClosed] when the Client is closed.
//
// With an error the lock is not held, even if it was won at the very moment when ctx ended; what a
// try may have left on a server is rolled back in the background.
func (m *exclusive) LockContext(ctx context.Context, timeout time.Duration) error {
	_, err := m.acquireWithin(ctx, timeout)
	return err
}

// Acquire locks m as LockContext(ctx, 0) does, and returns the hold: a handle for code in which Lock and Unlock are far
// from each other, to be ended by [Lease.Release]. The errors are those of [Mutex.LockContext].
//
// The hold is that of m as well: [Mutex.Lease] returns it, and [Mutex.Unlock] ends it.
func (m *exclusive) Acquire(ctx context.Context) (*Lease, error) { return m.acquire(ctx, false) }

// Unlock unlocks m. It panics if m is not locked, as [sync.Mutex.Unlock] does. It logs what
// [Mutex.UnlockContext] would return.
func (m *exclusive) Unlock() {
	m.unlocked("Unlock", m.UnlockContext(context.Background()))
}

// UnlockContext unlocks m. Whatever it returns, m is unlocked afterwards in this process, and other
// processes can lock it when the lease is over at the latest. A ctx that has already ended does not
// stop the release, which then has one node timeout; a ctx that ends while the release is under way
// ends the wait, and the release goes on in the background. After [Client.Close] there is no background, and
// the release has one node timeout whatever ctx says.
//
// The error matches
//   - [ErrUnlocked] when m was not locked;
//   - [ErrLost] when the lease had ended before: the work under the lock may have overlapped with
//     another holder's. With [WithLeaseReuse] an Unlock that keeps the lock asks no server, and so does not report
//     a key that is gone since the last renewal; that is reported when the lock is released for good;
//   - [ErrUnavailable] when too few servers answered; and the cause of ctx, if that ended the wait.
func (m *exclusive) UnlockContext(ctx context.Context) error {
	m.mustBeMade()
	ended := ctx.Err() != nil // a nil ctx panics before anything is changed
	l := m.hold.Load()
	switch {
	case l != nil && l.claim():
		return l.release(ctx, ended)
	case l != nil && l.excuse():
		return nil
	}
	return unlockedError(m.key, "Unlock")
}

// Lease returns the current hold, or nil while m is unlocked. A lost lease is returned until Unlock.
func (m *exclusive) Lease() *Lease {
	if l := m.hold.Load(); l != nil && !l.claimed.Load() {
		return l
	}
	return nil
}
