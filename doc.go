// Package redimutex is a [sync.Mutex] that every process sharing a Redis agrees on, for programs that use redigo.
//
//	mu := redimutex.New(pool, "invoices:2026-11") // pool is your *redis.Pool
//	err := mu.Do(ctx, func(ctx context.Context) error {
//		return work(ctx) // ctx ends when the lock is lost
//	})
//
// # What it guarantees
//
// While the [Lease] of a [Mutex] is valid, no other holder of the same key has a valid lease. There are two conditions: the
// server keeps its data, and its clock runs at the same speed as the clock of this process, within 1%. For the other kinds
// below, the same is true of holders that exclude each other.
//
// A lease is a lock with a time limit. Its validity begins just before the request for the lock is sent. It lasts for one TTL
// (10 s, see [WithTTL]) less 1% and 2 ms, on this process's monotonic clock. The library renews it every third of the TTL
// while the process lives. The lock of a crashed process is free at most one TTL after its last renewal.
//
// A lock can't guarantee that a paused holder stops in time. A process can be stopped, swapped out or collecting garbage for
// longer than its lease. It then goes on in the middle of its work, and another process may have the lock. [Lease.Err] reports
// that, but the process can be paused again between the check and the write. No lock with a timeout can close that gap. The
// resource can: with [WithFencing] each hold has a number that is higher than the numbers of all earlier holds. A resource
// that remembers the highest number it has seen, and refuses lower ones, accepts no write from the past.
//
// A suspended machine loses the leases that end meanwhile. On most systems the monotonic clock stands still during suspension,
// so the wall clock counts as well. Setting the wall clock forward may end a lease early. It never makes one last longer.
//
// # Kinds
//
//   - [Mutex]: one holder, on one server or on a majority of several servers.
//   - [RWMutex]: many readers or one writer, and neither side starves. [Lease.Downgrade] turns a writer into a reader.
//   - [Semaphore]: a limited number of holders. Each call names the limit, and each permit is a lease.
//   - [Client.MutexAll]: one Mutex for several keys. It locks all or none, with one lease and one fence.
//   - [Lease.HandOver] and [Mutex.TakeOver]: another process continues the hold, and the lock stays locked.
//
// RWMutex and Semaphore need a single server, because majorities can't count holders. A key is of one kind: a call for another
// kind returns an error at once. But RWMutex and Mutex may share a key, and exclude each other.
//
// # What breaks it
//
//   - A holder that is paused, as above.
//   - A server that loses the key: a restart without persistence, FLUSHALL, a failover to a replica that did not have the key
//     yet, an eviction under maxmemory, a DEL by hand. The next waiter gets the lock at once. The holder finds out at the next
//     renewal, within a third of the TTL. [WithReplicas] protects against the failover. Several servers with
//     [WithRestartGuard] protect against the restart.
//   - A server's clock set forward by about a TTL, or a failover to a clock that is so far ahead: the key expires early.
//
// An unreachable server does not break it. No process can lock, and the holder learns of the loss before its validity ends.
//
// # When the lease is lost
//
//   - The context that [Mutex.Do] gives ends, with a [context.Cause] that matches [ErrLost].
//   - [Lease.Done] is closed.
//   - [Lease.Err], [Mutex.UnlockContext] and Do return an error that matches ErrLost. [LostError] says why: expired (no
//     renewal got through, or none was due), deleted, or taken by another token.
//   - Unlock or Release is still needed. Until then no other goroutine of the Client can lock that Mutex, MutexAll or writer.
//
// If a server can report the loss, you learn of it at the next renewal. Otherwise you learn of it by the time the lease ends,
// even if a renewal hangs. With one server, a renewal never restores a lost key: the lease is lost. With several servers,
// while a majority still has the key, a renewal asks the servers that lost it to take it again.
//
// # Errors and what to do about them
//
//	ErrLocked                      another holder, or a lost hold before its Unlock, has it
//	                               (LockedError: who, for how long): try again later
//	ErrLost                        stop; check what was written since the loss, or do it again
//	                               under a new lock
//	ErrUnavailable                 too few servers answered (a NodeError for each says why): try
//	                               again later. From Unlock: nothing to do, the release goes on in
//	                               the background, and the key expires by itself
//	NodeError, not ErrUnavailable  a permanent error: the server refuses (password, permission, a
//	                               key of another type) and will again; correct the configuration
//	ErrClosed                      the Client was closed: this program is shutting down
//	ErrUnlocked                    Unlock without Lock, a second Release, or a Lease that was handed
//	                               over: a bug in the caller; Unlock panics
//	the cause of the ctx           the caller gave up
//
// Test for the values in the first column with [errors.Is], and for the types [LockedError], [LostError] and [NodeError] with
// [errors.As]. When a Lock method returns an error, the lock is not held.
//
// [Mutex.Lock] can't return an error. After a temporary error it tries again, without end. At a permanent error it panics.
//
// # Goroutines
//
// Many goroutines share one [Mutex], as they share a sync.Mutex, and any of them may unlock it. If Lock and Unlock are far
// from each other, use [Mutex.Acquire]: it returns the hold, and [Lease.Release] ends that hold and never a later one. Inside
// [Mutex.Do], [LeaseFrom] finds the hold in the ctx.
//
// All Mutexes of a [Client] with the same key share one line in the process: first come, first served. Only the first in line
// asks the servers, so ten thousand goroutines that wait for one key send as many requests as one goroutine.
//
// Between processes there is no order by default: waiters ask every 50 ms (see [WithPollInterval] and [WithBackoff]), and the
// first to ask after the release wins. With [WithQueue] they queue on the server, in order of arrival: a release hands the
// lock to the first waiter and wakes it. WithQueue needs a single server.
//
// A Mutex can be the Locker of a [sync.Cond], whose Signal and Broadcast reach only goroutines of this process. Like a
// sync.Mutex it is not reentrant. A call that would wait for the Do that gave it its ctx returns an error at once. With
// [WithReentrancy], Do and TryDo nest.
//
// # Other clients
//
// The lock is a string with a TTL, under your key without a prefix. Its value is a random UUID, followed by a space and the
// label of [WithOwner] if there is one. Each hold has a new UUID; with [WithLeaseReuse] several holds may share one. A client
// in any language that does the same shares the lock:
//
//	SET key token NX PX 10000                                        to lock
//	if redis.call('GET', KEYS[1]) == ARGV[1] then                    to unlock
//	  return redis.call('DEL', KEYS[1]) end
//
// Such a client and a Mutex, a MutexAll or either side of an RWMutex exclude each other. While readers have the key, its value
// is *, so no client may use * as its token. A Semaphore's key is a sorted set, which no other client shares.
//
// No client should leave a key without a TTL behind: waiters wait until it is deleted. Keys that begin with "redimutex:"
// belong to this library (fence counters, queues, the readers of an RWMutex, the restart guard), and are no keys of locks.
//
// # Pools and servers
//
// A [Pool] is a *redis.Pool of redigo, or a *redisc.Cluster of mna/redisc, as it is. [NewPool] makes a pool from a URL,
// [NewPoolAt] from an address, and the modules in the folder pools from a client of go-redis, valkey-go or rueidis.
//
// Every operation ends at its own deadline, whatever timeouts the pool has and even if the pool hangs. If a hung server
// executes a try after that deadline, no lock is left behind. [Pool] describes what replaces broken connections.
//
// One server is the normal case: [New], or [NewClient] with one pool. If it has replicas and fails over to them, add
// [WithReplicas]. A pool whose Dial asks a Sentinel for the primary works.
//
// If the lock must survive the death of one or two servers without failover, give [NewRedlock], or NewClient, the pools of
// three or five independent servers. A majority has to agree
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), and no call waits for a server that hangs. Two
// servers survive no failure that one does not, because both have to agree.
//
// Options: [WithTTL], [WithMaxHold], [WithMinHold], [WithoutRenewal], [WithNodeTimeout]; [WithPollInterval], [WithBackoff],
// [WithMaxAttempts], [WithQueue]; [WithFencing], [WithReplicas], [WithRestartGuard]; [WithReentrancy]; [WithOwner],
// [WithTrace], [WithLogger]; [WithLeaseReuse], [WithMultiplexing]. Options of [NewClient] apply to all its locks, those of
// [Client.Mutex] to that Mutex. [Client.Observe] reports what happens to all locks of a Client; [Client.Stats] counts it.
package redimutex
