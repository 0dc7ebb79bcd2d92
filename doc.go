// Package redimutex is a [sync.Mutex] that every process sharing a Redis agrees on, for programs that use redigo.
//
//	mu := redimutex.New(pool, "invoices:2026-11") // pool is your *redis.Pool
//	err := mu.Do(ctx, func(ctx context.Context) error {
//		return work(ctx) // ctx ends when the lock is lost
//	})
//
// # What it guarantees
//
// While the [Lease] of a [Mutex] is valid, no other holder of the same key has a valid one. There are two conditions:
// the server keeps its data, and its clock runs at the speed of ours, give or take 1%. For the other kinds, below,
// the same is true of holders that exclude each other.
//
// A lease is a lock for a time. It is valid from just before the lock was asked for, for one TTL (10 s, see
// [WithTTL]) less 1% and 2 ms, on this process's monotonic clock. It is renewed every third of the TTL while the
// process lives. The lock of a crashed process is free at most one TTL after its last renewal.
//
// It does not guarantee that a paused holder stops in time. A process can sleep for longer than its lease: stopped,
// swapped out, collecting garbage. It wakes up in the middle of its work, and by then another may have the lock.
// [Lease.Err] says so, but the process can be paused again between looking and writing. No lock with a timeout can
// close that gap. The resource can: with [WithFencing] each hold has a number that is higher than those before. A
// resource that refuses a write with a lower number than it has seen takes no write from the past.
//
// A machine that was suspended wakes up without its leases. On most systems the monotonic clock stands still meanwhile,
// so the wall clock counts as well. Setting the wall clock forward may cost leases. It never makes one last longer.
//
// # Kinds
//
//   - [Mutex]: one holder. On one server, or on a majority of several.
//   - [RWMutex]: many readers or one writer, and neither side starves. Each reader's hold is a lease.
//     [Lease.Downgrade] makes a writer a reader.
//   - [Semaphore]: at most as many holders as the limit that the call names. Each permit is a lease.
//   - [Client.MutexAll]: a Mutex of several keys, all or none, with one lease and one fence.
//   - [Lease.HandOver] and [Mutex.TakeOver]: another process goes on with the hold of a Mutex, and the lock is never
//     free between.
//
// RWMutex and Semaphore need one server, because majorities can't count holders. A key is of one kind: a call for the
// wrong kind is an error at once. RWMutex and Mutex exclude each other.
//
// # What breaks it
//
//   - A holder that is paused, as above.
//   - A server that forgets: a restart without persistence, FLUSHALL, a failover to a replica that did not have the
//     key yet, an eviction under maxmemory, a DEL by hand. The next waiter gets the lock at once. The holder finds
//     out at the next renewal, within a third of the TTL. [WithReplicas] is for the failover, several servers and
//     [WithRestartGuard] are for the restart.
//   - A server whose clock is set forward by about a TTL, or a failover to one that is ahead by as much: the key
//     expires early.
//
// A server that can't be reached does not break it: no process can lock, and the holder learns of it before its validity ends.
//
// # When the lease is lost
//
//   - The context that [Mutex.Do] gives ends, with a [context.Cause] that matches [ErrLost].
//   - [Lease.Done] is closed.
//   - [Lease.Err], [Mutex.UnlockContext] and Do return an error that matches ErrLost. [LostError] says why: expired (no
//     renewal got through, or none was due), deleted, or taken by another token.
//   - Unlock or Release is still needed: until then no other goroutine of the Client gets that Mutex, MutexAll or writer again.
//
// If a server can report the loss, you learn of it at the next renewal. Otherwise you learn of it by the time the
// lease ends, even if a renewal hangs. A renewal never brings a lost key back: on one server, the lease is lost. Of
// several servers, a minority that has lost the key is asked to take it again, while a majority still has it.
//
// # Errors and what to do about them
//
//	ErrLocked                      another holder has it (LockedError: who, for how long):
//	                               do something else, or come back
//	ErrLost                        stop, and treat what was written since as suspect: check it, or
//	                               do it again under a new lock
//	ErrUnavailable                 too few servers answered (a NodeError for each says why): come
//	                               back later. From Unlock: nothing to do, the release goes on in
//	                               the background, and the key expires by itself
//	NodeError, not ErrUnavailable  the server refuses (password, permission, a key of another
//	                               type) and will again: correct the configuration
//	ErrClosed                      the Client was closed: we are shutting down
//	ErrUnlocked                    Unlock without Lock, a second Release, or a Lease that was handed
//	                               over: a bug in the caller; Unlock panics
//	the cause of the ctx           the caller gave up
//
// Test for the first column by [errors.Is], and for [LockedError], [LostError] and [NodeError] by [errors.As]. With
// an error from a Lock method the lock is not held.
//
// [Mutex.Lock] has no error to return. It tries again, without end, after errors that pass, and panics at those that stay.
//
// # Goroutines
//
// Many goroutines share one [Mutex], as they share a sync.Mutex, and any of them may unlock it. If Lock and Unlock
// are far from each other, use [Mutex.Acquire]: it returns the hold, and [Lease.Release] ends that one and never a
// later one. Inside [Mutex.Do], [LeaseFrom] finds the hold in the ctx.
//
// All Mutexes of a [Client] with the same key share one line in the process: first come, first served. Only the first
// in line asks the servers, so ten thousand goroutines that wait for one key cost as many requests as one.
//
// Between processes there is no order: waiters ask every 50 ms (see [WithPollInterval] and [WithBackoff]), and the
// first to ask after the release wins. With [WithQueue] they queue on the server, in order of arrival: a release is a
// hand-off to the first, and wakes it. It needs one server.
//
// A Mutex can be the Locker of a [sync.Cond]; Signal and Broadcast reach goroutines of this process. Like a
// sync.Mutex it is not reentrant: a call that would wait for the Do whose ctx it has is an error at once. With
// [WithReentrancy], Do and TryDo nest.
//
// # Other clients
//
// The lock is a string under your key, unprefixed, with a TTL. Its value is a random UUID, a new one for each hold
// (for several with [WithLeaseReuse]), followed by a space and the label of [WithOwner] if there is one. A client in
// any language that does the same shares the lock:
//
//	SET key token NX PX 10000                                        to lock
//	if redis.call('GET', KEYS[1]) == ARGV[1] then                    to unlock
//	  return redis.call('DEL', KEYS[1]) end
//
// It excludes a Mutex, a MutexAll and both sides of an RWMutex, and they exclude it. While readers have the key its value is *,
// which no client may use as its token. A Semaphore's key is a sorted set, which no other client shares.
//
// A key without TTL, which no client should leave behind, is waited for until it is deleted. Keys that begin with
// "redimutex:" belong to this library: fence counters, queues, the readers of an RWMutex and the restart guard. No
// lock can have such a name.
//
// # Pools and servers
//
// A [Pool] is a *redis.Pool of redigo, or a *redisc.Cluster of mna/redisc, as it is. [NewPool] makes a pool from a
// URL, [NewPoolAt] from an address, and the modules in pools from a client of go-redis, valkey-go or rueidis.
//
// Every operation has a deadline of its own, whatever timeouts the pool has and however it hangs. If a hung server
// executes a try after its deadline, that leaves no lock behind. [Pool] says what becomes of broken connections.
//
// One server is the normal case: [New], or [NewClient] with one pool. If it has replicas and fails over to them, add
// [WithReplicas]. A pool whose Dial asks a Sentinel for the primary fits.
//
// If the lock has to outlive the death of one or two servers without failover, give [NewRedlock], or NewClient, the
// pools of three or five independent servers. A majority has to agree
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), and a server that hangs is not waited
// for. Two servers survive nothing that one does not.
//
// Options: [WithTTL], [WithMaxHold], [WithMinHold], [WithoutRenewal], [WithNodeTimeout]; [WithPollInterval], [WithBackoff],
// [WithMaxAttempts], [WithQueue]; [WithFencing], [WithReplicas], [WithRestartGuard]; [WithReentrancy]; [WithOwner],
// [WithTrace], [WithLogger]; [WithLeaseReuse], [WithMultiplexing]. Those of [NewClient] hold for all its locks, those of
// [Client.Mutex] for that Mutex. [Client.Observe] reports what happens to all locks of a Client; [Client.Stats] counts it.
package redimutex
