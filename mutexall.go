package redimutex

import "slices"

// MutexAll returns a Mutex that locks several keys as one: one script takes all of them or none. It and the Mutexes of single
// keys exclude each other, in every process and with every client of the common protocol. Two MutexAlls cannot deadlock: the
// order of the keys does not matter, and a call that waits holds none of them.
//
// The keys have one token, one lease and one fence. The fence is above the counters of all keys, and is written to each. If
// one key is lost, all are: the hold ends, the [LostError] names the key, and Unlock releases the others. A [LockedError]
// names a key that is held. Each of several servers votes for all keys or for none. [Mutex.Key] is the first of [Mutex.Keys].
// It stands for all keys in other errors, in a [Trace] and in [Client.Locks].
//
// In a Redis Cluster the keys have to be in one slot: give them the same {tag}, as in "account:{eu}:1". Otherwise each try
// fails at once, with an error that says so.
//
// A MutexAll waits by polling ([WithPollInterval], [WithBackoff]). So queued waiters of single keys may starve it, and so may
// another process that reuses its lease of one of them. [WithQueue] and [WithLeaseReuse] of the Client do not apply to it. If
// this process keeps one of the keys for reuse, it first releases that lock. A MutexAll of several keys can't be handed over.
//
// It panics if there are no keys, if WithQueue or WithLeaseReuse is given here, and for the reasons of [Client.Mutex].
func (c *Client) MutexAll(keys []string, opts ...Option) *Mutex {
	must(len(keys) > 0, "MutexAll needs a key at least, and got none")
	for _, k := range keys {
		c.mustBeKey("a MutexAll", k)
	}
	base := *c.config
	base.terms.Queue, base.terms.Reuse = false, 0
	config := c.configured(&base, opts)
	must(!config.terms.Queue, "WithQueue: a queue has the waiters of one key, and a MutexAll has several: leave it out, and it polls (WithPollInterval, WithBackoff)")
	must(config.terms.Reuse == 0, "WithLeaseReuse(%v): a MutexAll keeps no lock for the next hold: leave it out", config.terms.Reuse)
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	return &Mutex{exclusive: exclusive{object{client: c, config: config, key: sorted[0], more: sorted[1:]}}}
}

// Keys returns the keys of m on the server, sorted, each once. A Mutex that was not made by [Client.MutexAll] has one.
func (m *Mutex) Keys() []string { return append([]string{m.key}, m.more...) }
