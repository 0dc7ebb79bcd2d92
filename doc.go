// Package redimutex is a [sync.Mutex] that every process sharing a Redis agrees on, for programs
// that use redigo.
//
//	mu := redimutex.New(pool, "invoices:2026-11") // pool is your *redis.Pool
//	err := mu.Do(ctx, func(ctx context.Context) error {
//		return work(ctx) // ctx ends when the lock is lost
//	})
//
// # What it guarantees
//
// While a [Lease] is valid, no other holder of the same key has a valid one, on condition that the server keeps its
// data and its clock runs at the speed of ours, give or take 1%. That is all. A lease is a lock for a time: it is valid
// from just before the lock was asked for, for one TTL (10 s, see [WithTTL]) less 1% and 2 ms, on this process's
// monotonic clock, and it is renewed every third of the TTL while the process lives. The lock of a process that has
// crashed is free one TTL after its last renewal at the latest.
//
// It does not guarantee that a holder which was paused stops in time. A process that sleeps for longer than its lease
// (stopped, swapped out, collecting garbage) wakes up in the middle of its work, and another has the lock by then.
// [Lease.Err] says so, but between looking and writing it can be paused again. No lock with a timeout can close that
// gap. The resource can: with [WithFencing] each hold has a number that is higher than those before, and a resource
// that refuses a write with a lower number than it has seen takes no write from the past. In SQL:
//
//	UPDATE invoices SET total = $1, fence = $2 WHERE id = $3 AND fence <= $2
//
// A machine that was suspended wakes up without its leases: the wall clock counts as well as the monotonic one, which
// stands still meanwhile on most systems. So setting the wall clock forward may cost leases, and never makes one last.
//
// # What breaks it
//
//   - A holder that is paused, as above.
//   - A server that forgets: a restart without persistence, FLUSHALL, a failover to a replica that
//     did not have the key yet, an eviction under maxmemory, a DEL by hand. The next waiter gets the
//     lock at once; the holder learns of it by the next renewal, so within a third of the TTL.
//     [WithReplicas] is for the failover, several servers and [WithRestartGuard] for the restart.
//   - A server whose clock is set forward by about a TTL: the key expires early.
//   - A server that can't be reached does not break it: nobody can lock, and the holder is told
//     before its validity ends.
//
// # When the lease is lost
//
// The context that [Mutex.Do] gives ends, with an error that matches [ErrLost] as its
// [context.Cause]; [Lease.Done] is closed; [Lease.Err], [Mutex.UnlockContext] and Do return that
// error. [LostError] says why: expired (no renewal got through), deleted, or taken by another
// token. A loss that the servers can tell is known with the next renewal, one that they can't when the
// validity ends at the latest, whatever a renewal that hangs is doing. A renewal never brings a
// lost key back.
//
// # Errors and what to do about them
//
//	ErrLocked                      somebody else holds it (LockedError: who, for how long):
//	                               do something else, or come back
//	ErrLost                        stop, and treat what was written since as suspect: check it, or
//	                               do it again under a new lock
//	ErrUnavailable                 too few servers answered (a NodeError for each says why): come
//	                               back later. From Unlock: nothing to do, the release goes on in
//	                               the background, and the key expires by itself
//	NodeError, not ErrUnavailable  the server refuses (password, permission, a key of another
//	                               type) and will again: mend the configuration
//	ErrClosed                      the Client was closed: we are shutting down
//	ErrUnlocked                    Unlock without Lock: a bug in the caller; Unlock panics
//	the cause of the ctx           the caller gave up
//
// Test for the first column by [errors.Is], and for [LockedError], [LostError] and [NodeError] by
// [errors.As]. With an error from a Lock method the lock is not held. [Mutex.Lock] has no error to
// return: it tries again, for ever, after errors that pass, and panics at those that stay. Those are a list (a
// password, a permission, a key of another type, a server without scripts); whatever is not on it passes.
//
// # Goroutines
//
// One [Mutex] is shared by many goroutines, as a sync.Mutex is; any of them may unlock it. Where Lock and Unlock are far
// from each other, [Mutex.Acquire] returns the hold itself: [Lease.Release] ends that one, and never a later one.
// Inside [Mutex.Do], [LeaseFrom] finds it in the ctx. All
// Mutexes of a [Client] with the same key share one queue in the process: first come, first served,
// and only the first of the queue asks the servers, so ten thousand goroutines that wait for one key
// cost as many requests as one. Between processes there is no order: waiters ask every 50 ms (see
// [WithPollInterval] and [WithBackoff]), and whoever asks first after the release wins. With [WithQueue]
// they queue on the server, in order of arrival, and a release hands over to the first and wakes it.
//
// A Mutex can be the Locker of a [sync.Cond]; Signal and Broadcast reach goroutines of this process.
// Like a sync.Mutex it is not reentrant: a call that would wait for the Do whose ctx it has is an error at once. With
// [WithReentrancy], Do and TryDo nest.
//
// # Other clients
//
// The lock is a string under your key, unprefixed, with a TTL. The value is a random UUID, a new one
// for each hold (or for several, with [WithLeaseReuse]), followed by a space and the label of [WithOwner] if
// there is one. A client in any language that does the same shares the lock:
//
//	SET key token NX PX 10000                                        to lock
//	if redis.call('GET', KEYS[1]) == ARGV[1] then                    to unlock
//	  return redis.call('DEL', KEYS[1]) end
//
// A key without TTL, which no client should leave behind, is waited for until somebody deletes it. Keys that begin
// with "redimutex:" belong to this library: fence counters, queues and the restart guard. No lock can have such a name.
//
// # Pools and servers
//
// A [Pool] is a *redis.Pool of redigo, or a *redisc.Cluster of mna/redisc, as it is. Every operation
// has a deadline of its own (see [WithNodeTimeout]), whatever timeouts the pool has and however it hangs, and a
// try that a hung server executes after its deadline leaves no lock behind. [NewPool] makes a pool from a URL,
// [NewPoolAt] from an address, and the modules in pools make one from a client of go-redis, valkey-go or rueidis.
// Their connections can be interrupted, so that no second goroutine is needed; [Dialer] gives the same to a pool
// of your own.
//
// With [WithMultiplexing] many goroutines share a few connections: worth it where dozens lock different keys at once.
//
// One server is the normal case: [New], or [NewClient] with one pool. If it has replicas and fails
// over to them, add [WithReplicas]; a pool whose Dial asks a Sentinel for the primary fits. Give
// [NewRedlock], or NewClient, three or five pools of independent servers where the lock has to
// outlive the death of one or two of them without failover: a majority has to agree
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), and one that hangs is
// not waited for. Two servers survive nothing that one does not.
//
// # Options
//
//   - Time: [WithTTL], [WithMaxHold], [WithMinHold], [WithoutRenewal], [WithNodeTimeout]
//   - Waiting: [WithPollInterval], [WithBackoff] with [Linear], [Exponential] or [Jittered], [WithMaxAttempts],
//     [WithQueue]
//   - Safety: [WithFencing], [WithReplicas], [WithRestartGuard]
//   - Speed: [WithLeaseReuse]
//   - Nesting: [WithReentrancy]
//   - Seeing: [WithOwner], [WithTrace], [WithLogger]
//
// Options of [NewClient] hold for all its Mutexes; those of [Client.Mutex] for that Mutex, over the Client's. What
// happens to all locks of a Client is told by [Client.Observe] and counted by [Client.Stats].
//
// An option that makes no sense panics when the Client or Mutex is made, with a sentence that says
// what is allowed.
package redimutex
