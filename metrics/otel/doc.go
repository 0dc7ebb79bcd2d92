// Package redimutexotel shows OpenTelemetry what the locks of a [redimutex.Client] do: in metrics, and
// in a span for each wait and each hold.
//
//	locks, err := redimutexotel.New(client)
//	...
//	defer locks.Close()
//
// # Spans
//
// "redimutex.wait" lasts from the call to the lock or to giving up, and is a child of the span in the
// context of the call. "redimutex.hold" lasts from the lock to Unlock, or to the loss of the lease; it
// is a child of the same span, and linked to the wait. A lock that was taken without a context, by
// Lock, makes two traces of its own, linked as well. How many are kept is up to the sampler.
//
// A span has the attributes redimutex.key, redimutex.kind, redimutex.owner, redimutex.fence, redimutex.attempt
// (tries) and redimutex.outcome. A wait that the servers made fail, and a hold that was lost, have the
// status Error; a hold has an event for each renewal that failed, and for the loss, with
// redimutex.reason.
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
