package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func leaksRow() evidence.Row {
	return played(evidence.Row{
		ID: 19, Name: "leaks", Fault: "10,000 faults through a proxy", Must: "no leak: goroutines, descriptors, pool connections +0",
		Short: 8 * time.Second, Long: 90 * time.Second,
	}, leaks)
}

// Holdings are what a process could leak.
type holdings struct{ goroutines, descriptors int }

func inventory() holdings {
	open, _ := os.ReadDir("/proc/self/fd") // none where there is no /proc
	return holdings{runtime.NumGoroutine(), len(open)}
}

// grown returns by how much the process has more than before, once it has shrunk as far as it does in
// the given time.
func (before holdings) grown(patience time.Duration) holdings {
	for end := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		now := inventory()
		more := holdings{max(now.goroutines-before.goroutines, 0), max(now.descriptors-before.descriptors, 0)}
		if more == (holdings{}) || time.Now().After(end) {
			return more
		}
	}
}

func leaks(r *run) {
	goal := 3_000
	if r.Long {
		goal = 10_000
	}
	servers, dialers := start(r, 5)
	held, tried, faults := 0, 0, 0
	var worst holdings
	missing := 0
	for ; r.more(tried, 1, 2); tried++ {
		before := inventory()
		var done int
		var gone int
		var works error
		r.Round(func(t testing.TB) { done, gone, works = storm(r, t, servers[:3], goal) })
		faults += done
		grown := before.grown(forever)
		if grown == (holdings{}) && gone == 0 && works == nil {
			held++
		} else {
			r.Note("After %d faults: %+v more, %d connections not given back, and afterwards: %v.", done, grown, gone, works)
		}
		worst.goroutines, worst.descriptors = max(worst.goroutines, grown.goroutines), max(worst.descriptors, grown.descriptors)
		missing = max(missing, gone)
	}
	r.Figure(evidence.Figure{
		Library: evidence.Ours, Held: held, Tried: tried,
		Worst: fmt.Sprintf("%d faults: goroutines +%d, descriptors +%d, pool connections +%d", faults, worst.goroutines, worst.descriptors, missing),
	})
	r.Note("Faults are resets, replies of which half arrives, packets that vanish, and packets that come up to 20 ms late, in both directions, " +
		"on about one packet in six; 21 goroutines lock, extend and unlock with seven features meanwhile.")
	growth(r, servers, dialers)
}

// storm has everybody lock while the connections fail, until there were so many faults, and then
// returns how many connections of the pools were not given back, and whether the locks still work.
func storm(r *run, t testing.TB, servers []*redistest.Server, goal int) (faults, missing int, works error) {
	proxies, through := proxied(t, servers)
	done := func() (sum int) {
		for _, p := range proxies {
			sum += p.Treated()
		}
		return sum
	}
	var pools []*redis.Pool
	var workers sync.WaitGroup
	stop := make(chan struct{})
	var mutexes []*redimutex.Mutex
	for _, f := range all {
		f.pools = &pools
		c := f.client(t, through, 2*time.Second)
		m := c.Mutex("storm " + f.name)
		mutexes = append(mutexes, m)
		for range 3 {
			rng := rand.New(rand.NewPCG(r.rng.Uint64(), 0)) //nolint:gosec // it has to be repeatable
			workers.Go(func() { toil(c.Mutex(m.Key()), rng, stop) })
		}
	}
	for _, p := range proxies {
		p.Treat(mischief(rand.New(rand.NewPCG(r.rng.Uint64(), 0)))) //nolint:gosec // it has to be repeatable
	}
	for done() < goal {
		if t.Context().Err() != nil {
			t.Fatal(context.Cause(t.Context()))
		}
		r.Progress(done(), goal)
		time.Sleep(10 * time.Millisecond)
	}
	for _, p := range proxies {
		p.Treat(nil)
	}
	close(stop)
	workers.Wait()
	for _, m := range mutexes {
		if err := m.LockContext(context.Background(), forever); err != nil {
			works = err
			continue
		}
		_ = m.UnlockContext(context.Background())
	}
	return done(), checkedOut(pools), works
}

// checkedOut returns how many connections do not come back to their pools.
func checkedOut(pools []*redis.Pool) int {
	for end := time.Now().Add(forever); ; <-time.After(10 * time.Millisecond) {
		if n := out(pools); n == 0 || time.Now().After(end) {
			return n
		}
	}
}

// out returns how many connections are in use.
func out(pools []*redis.Pool) (n int) {
	for _, p := range pools {
		n += p.ActiveCount() - p.IdleCount()
	}
	return n
}

// toil locks, extends and unlocks until stop, whatever comes of it.
func toil(m *redimutex.Mutex, rng *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		patience := time.Duration(5+rng.IntN(95)) * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		var err error
		if rng.IntN(4) == 0 {
			err = m.TryLockContext(ctx)
		} else {
			err = m.LockContext(ctx, 0)
		}
		if err == nil {
			if rng.IntN(3) == 0 {
				_ = m.Lease().Extend(ctx, 2*time.Second)
			}
			_ = m.UnlockContext(ctx)
		}
		cancel()
	}
}

// mischief is what happens to packets in a storm.
func mischief(rng *rand.Rand) func(reply bool) redistest.Treatment {
	return func(bool) redistest.Treatment {
		switch n := rng.IntN(120); {
		case n < 6:
			return redistest.Treatment{Harm: redistest.Reset}
		case n < 12:
			return redistest.Treatment{Harm: redistest.Halved}
		case n < 13:
			return redistest.Treatment{Harm: redistest.Silence} // dear: a caller waits for the node timeout
		case n < 20:
			return redistest.Treatment{Delay: time.Duration(1+rng.IntN(20)) * time.Millisecond}
		}
		return redistest.Treatment{}
	}
}

// growth counts the goroutines that 300 holds of redsync leave behind while two of five servers are paused. Ours end with
// the node timeout.
func growth(r *run, servers []*redistest.Server, dialers []peers.Dialer) {
	p := redsyncPeer(dialers, 0, redsync.WithExpiry(minorityTTL), redsync.WithFailFast(true))
	p.name = "redsync with FailFast"
	r.compare([]peer{p}, func(t testing.TB, _ string, l peers.Library) (int, int, string) {
		pause(servers, 1, 3)
		defer resume(servers, 1, 3)
		const holds = 300
		before := runtime.NumGoroutine()
		for i := range holds {
			slot := l.Slot(fmt.Sprintf("growth %d", i))
			o := r.patience(t, func() error {
				return errors.Join(slot.TryLock(context.Background()), slot.Unlock(context.Background()))
			})
			if o.still || o.err != nil {
				return 0, 1, fmt.Sprintf("stuck after %d holds (%v), goroutines +%d", i, o.err, runtime.NumGoroutine()-before)
			}
		}
		return 0, 1, fmt.Sprintf("%d holds with 2 of 5 servers paused: goroutines +%d", holds, runtime.NumGoroutine()-before)
	})
}
