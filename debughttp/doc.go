// Package debughttp shows the locks of a process on a web page, as net/http/pprof shows its profiles. The page shows
// which locks the process has and for how long they are still valid, who waits, what went wrong, and what happened
// last.
//
//	mux := http.NewServeMux()
//	mux.Handle("/debug/redimutex", debughttp.Handler(client))
//	go http.ListenAndServe("localhost:6060", mux)
//
// The page refreshes itself each second, and works without JavaScript too. It needs nothing from elsewhere. Looking
// changes nothing and asks no server: the page shows what this process knows. The command redimutex shows what the
// servers know.
//
// # Protect it
//
// The page shows no tokens. It shows the names of keys, the owners' labels, and errors in the words of the servers.
// Mount it where pprof is mounted: on a port that only operators reach, or behind a password. Package debughttp asks
// for none.
//
// # JSON
//
// With ?format=json the page comes as JSON. It also does so for a client that accepts application/json and prefers it to
// text/html. An age ("_ms") is in milliseconds.
//
//	at          when this was so
//	process     program, host, pid; since when it is observed
//	stats       the figures of [redimutex.Stats]
//	held        locks that the process has: key, keys of a MutexAll, kind, holds, owner, fence, age_ms, left_ms, ttl_ms,
//	            waiting, idle; what is kind and holds in words
//	waited_for  keys that it wants and does not have: key, keys, kind, waiting, error of the last try
//	trouble     the last events that an operator may have to look into, the newest first
//	events      the last events, the newest first
//
// A key longer than 1 KiB is cut, and key_bytes is its length. shown is the key as the page shows it: unchanged, or as a Go
// string if it has characters that can't be printed. times is how often an event was repeated, and number counts events up.
// more says how many locks are missing in held and waited_for.
//
// These can be added to the address of the page as well:
//
//	q=TEXT      only keys and owners that have TEXT in them, in upper or lower case
//	sort=ORDER  urgent: what runs out first, the rest by age (the default); left, age, waiting, key
//	n=NUMBER    of held, and of waited_for; 100 by default, 10000 at most
package debughttp
