// Package redimutexotel shows OpenTelemetry what the locks of a [redimutex.Client] do: in metrics, and
// in a span for each wait and each hold.
//
//	locks, err := redimutexotel.New(client)
//	...
//	defer locks.Close()
//
// # Spans
//
// "redimutex.wait" lasts from the call until the lock is acquired or the call gives up. It is a child of the span in the
// context of the call. "redimutex.hold" lasts from the lock to Unlock, or to the loss of the lease. It is a child of the same
// span, and linked to the wait. A lock taken without a context, by Lock, makes two traces of its own, also linked. The sampler
// decides how many are kept.
//
// A span has the attributes redimutex.key, redimutex.kind, redimutex.owner, redimutex.fence, redimutex.attempt (tries) and
// redimutex.outcome. A wait that failed because of the servers, and a hold that was lost, have the status Error. A hold has an
// event for each failed renewal, and for its loss, with redimutex.reason.
//
// # Metrics
//
//	redimutex.lock.held          {lock}       leases of this process, also idle ones
//	redimutex.lock.waiters       {goroutine}  goroutines that wait for a lock
//	redimutex.lock.oldest_hold   s            age of the oldest hold that is in use; 0 without one
//	redimutex.lock.acquired      {lock}       locks acquired
//	redimutex.lock.contended     {lock}       of those, not at the first try on the servers
//	redimutex.lock.released      {lock}       locks unlocked
//	redimutex.lock.failed        {call}       calls that ended without the lock; redimutex.outcome
//	redimutex.lock.wait          s            histogram; redimutex.outcome
//	redimutex.lock.hold          s            histogram; redimutex.outcome
//	redimutex.lease.renewals     {renewal}    redimutex.outcome: renewed, failed
//	redimutex.lease.lost         {lease}      redimutex.reason: expired, deleted, taken
//	redimutex.server.errors      {error}      redimutex.server
//
// Keys are in no attribute of a metric unless [WithKeyAttribute] says how to bound their number. The
// outcomes are those of the Prometheus collector: a wait is acquired, locked, unavailable, refused,
// cancelled, closed or failed, a hold released, lost or unreleased.
package redimutexotel
