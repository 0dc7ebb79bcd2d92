// Package redimutexprom shows Prometheus what the locks of a [redimutex.Client] do.
//
//	collector := redimutexprom.New(client)
//	prometheus.MustRegister(collector)
//	defer collector.Close()
//
// One Client makes some 60 series, and some 20 more for each other outcome of a wait or hold that happens: at most 208, plus
// one for each further server, whatever the number of keys, unless [WithKeyLabel] asks for more. A program with several
// Clients registers a Collector for each, with [WithLabels] that tell them apart.
//
// The metrics are
//
//	redimutex_locks_held                      gauge      leases of this process, also idle ones
//	redimutex_waiters                         gauge      goroutines that wait for a lock
//	redimutex_oldest_hold_seconds             gauge      age of the oldest hold that is in use; 0 without one
//	redimutex_acquired_total                  counter    locks acquired
//	redimutex_contended_total                 counter    of those, not at the first try on the servers
//	redimutex_released_total                  counter    locks unlocked
//	redimutex_failed_total{outcome}           counter    calls that ended without the lock
//	redimutex_renewals_total{outcome}         counter    renewals: renewed, failed
//	redimutex_lost_total{reason}              counter    leases lost: expired, deleted, taken
//	redimutex_server_errors_total{server}     counter    failed operations by server
//	redimutex_wait_seconds{outcome}           histogram  from the call to the lock, or to giving up
//	redimutex_hold_seconds{outcome}           histogram  from the lock to Unlock
//
// The outcome of a wait is acquired, locked (another process held it until time or tries ran out), unavailable (too few
// servers answered), refused (the servers refuse for good), cancelled (the caller's context ended), closed (the Client was
// closed) or failed. The outcome of a hold is released, lost, or unreleased (Unlock could not reach enough servers, so the key
// has to expire).
//
// The histograms and the failed calls are counted from [New] on, all others since the Client was made.
package redimutexprom
