package servers

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/lab/stats"
	"github.com/redimutex/redimutex/internal/redistest"
)

func minorityRow() evidence.Row {
	return evidence.Row{
		ID: 8, Name: "minority", Fault: "1 or 2 of 5 servers paused", Must: "a quorum is enough: Lock and Unlock p99 <= 5 ms",
		Short: 8 * time.Second, Long: 90 * time.Second, Run: play(minority),
	}
}

// promptly is what the table asks of Lock and Unlock.
const promptly = 5 * time.Millisecond

// minorityTTL makes the node timeout 3 s: a waiter for a paused server is seen, however slow
// the machine is.
const minorityTTL = time.Minute

// fives are the features that are tried on five servers.
var fives = []feature{
	{name: "plain", servers: 5, options: none},
	{name: "fencing", servers: 5, options: fencing},
	{name: "multiplexed", servers: 5, options: none, shared: true},
}

// Cycles are how long some rounds of Lock and Unlock took, and how many goroutines there were.
type cycles struct {
	lock, unlock stats.Times
	failed       error
	grown        int // how many more goroutines the second half had at most than there were in the middle
}

// cycle locks and unlocks n keys, one after the other.
func cycle(c *redimutex.Client, n int) cycles {
	var all cycles
	usual := 0
	for i := range n {
		m := c.Mutex(fmt.Sprintf("k%d", i))
		began := time.Now()
		err := m.LockContext(context.Background(), 0)
		locked := time.Now()
		if err == nil {
			err = m.UnlockContext(context.Background())
		}
		if err != nil {
			all.failed = err
			return all
		}
		all.lock = append(all.lock, locked.Sub(began))
		all.unlock = append(all.unlock, time.Since(locked))
		switch now := runtime.NumGoroutine(); {
		case i == n/2:
			usual = now
		case i > n/2:
			all.grown = max(all.grown, now-usual)
		}
	}
	return all
}

func minority(r *run) {
	servers, dialers := start(r.t, 5)
	const cycled = 1000
	held, tried := 0, 0
	var calm, locked, unlocked, late stats.Times
	grown := 0
	for ; r.more(tried, 2*len(fives), 20*len(fives)); tried++ {
		before := runtime.NumGoroutine()
		which := r.rng.Perm(5)[:1+tried%2]
		var calmly, got cycles
		var lateness stats.Times
		r.round(func(t testing.TB) {
			c := fives[tried/2%len(fives)].client(t, dialers, minorityTTL)
			calmly = cycle(c, cycled/4)
			pause(servers, which)
			h := watchHiccups()
			got = cycle(c, cycled)
			lateness = h.Naps()
			resume(servers, which)
		})
		r.quiet(before)
		if got.within(minorityTTL / 40) { // half of the node timeout: no caller waited for a paused server

			held++
		} else {
			r.note(fmt.Sprintf("Round %d with %d of 5 servers paused: error %v, Lock p99 %s, Unlock p99 %s, %+d goroutines.",
				tried, len(which), got.failed, ms(got.lock.Quantile(0.99)), ms(got.unlock.Quantile(0.99)), got.grown))
		}
		calm, late = append(calm, calmly.lock...), append(late, lateness...)
		locked, unlocked = append(locked, got.lock...), append(unlocked, got.unlock...)
		grown = max(grown, got.grown)
	}
	noise := max(late.Quantile(0.99), calm.Quantile(0.99))
	if r.Long && max(locked.Quantile(0.99), unlocked.Quantile(0.99)) > promptly+noise {
		held = 0
		r.note(fmt.Sprintf("Too slow, even if %s more are granted for the noise of this machine.", ms(noise)))
	}
	r.figure(evidence.Figure{
		Library: evidence.Ours, Held: held, Tried: tried,
		Worst: fmt.Sprintf("Lock p99 %s, Unlock p99 %s, limit 5 ms (Lock p99 without the fault: %s); %+d goroutines",
			ms(locked.Quantile(0.99)), ms(unlocked.Quantile(0.99)), ms(calm.Quantile(0.99)), grown),
	})
	r.note(fmt.Sprintf("A try is a round of %d calls of Lock and Unlock with one or two servers paused. Meanwhile this machine woke "+
		"a goroutine that only looks at the clock %s late at p99. The long version adds that, or the p99 without the fault, to the limit.",
		cycled, ms(late.Quantile(0.99))))
	peerMinority(r, servers, dialers)
}

// mayGrow is by how many goroutines the second half of a round may grow; a leak of one for each call
// would be a thousand. Calls ask a server that falls silent until it has been so for 20 ms or, on a busy
// machine, for eight times as long as answers take there; after that one goroutine waits to see it recover.
// Also a server that is not paused has to wait for a processor now and then.
const mayGrow = 250

// within reports whether all went well: no error, no call that waited, no goroutines that pile up.
func (c cycles) within(limit time.Duration) bool {
	return c.failed == nil && c.lock.Quantile(0.99) <= limit && c.unlock.Quantile(0.99) <= limit && c.grown <= mayGrow
}

// peerMinority has redsync lock while two of the servers are paused.
func peerMinority(r *run, servers []*redistest.Server, dialers []peers.Dialer) {
	limit := 3 * time.Second
	if r.Long {
		limit = 12 * time.Second
	}
	r.round(func(t testing.TB) {
		mutex := redsyncPeer(t, dialers, 0, redsync.WithExpiry(minorityTTL)).Slot("peer")
		which := []int{1, 3}
		pause(servers, which)
		o := patience(t, limit, func() error { return mutex.TryLock(context.Background()) })
		resume(servers, which)
		held := 0
		if !o.still && o.took <= limit/2 {
			held = 1
		}
		r.figure(evidence.Figure{Library: "redsync", Held: held, Tried: 1, Worst: "Lock " + o.String(), NotJudged: true})
	})
}

func pause(servers []*redistest.Server, which []int) {
	for _, i := range which {
		servers[i].Pause()
	}
}

func resume(servers []*redistest.Server, which []int) {
	for _, i := range which {
		servers[i].Resume()
	}
}

// round plays f on a stage of its own, so that what belongs to it is gone afterwards.
func (r *run) round(f func(t testing.TB)) {
	if err := evidence.Stage(r.t.Context(), f); err != nil {
		r.t.Fatal(err)
	}
}

// quiet waits until there are no more goroutines than n.
func (r *run) quiet(n int) {
	redistest.Wait(r.t, fmt.Sprintf("%d goroutines at most", n), func() bool {
		return runtime.NumGoroutine() <= n
	})
}
