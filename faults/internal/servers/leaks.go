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

// holdings counts what a process could leak.
type holdings struct{ goroutines, descriptors int }

func inventory() holdings {
	open, _ := os.ReadDir("/proc/self/fd") // none where there is no /proc
	return holdings{runtime.NumGoroutine(), len(open)}
}

// grown returns how much more the process has than before. It waits until there is nothing more, but no longer than patience.
func (before holdings) grown(patience time.Duration) holdings {
	for end := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		now := inventory()
		more := holdings{max(now.goroutines-before.goroutines, 0), max(now.descriptors-before.descriptors, 0)}
		if more == (holdings{}) || time.Now().After(end) {
			return more
		}
	}
}

func leaks(s *evidence.Scene) {
	goal := 3_000
	if s.Long {
		goal = 10_000
	}
	servers, dialers := start(s, 5)
	random := s.Random(0)
	f, faults, missing := evidence.Figure{Library: evidence.Ours}, 0, 0
	var worst holdings
	for q := s.Quota(1, 2); q.More(); q.Done++ {
		before := inventory()
		var done, gone int
		var works error
		s.Round(func(t testing.TB) { done, gone, works = storm(s, t, random, servers[:3], goal) })
		faults += done
		grown := before.grown(forever)
		held := grown == (holdings{}) && gone == 0 && works == nil
		if f.Count(held); !held {
			s.Note("After %d faults: %+v more, %d connections not given back, and afterwards: %v.", done, grown, gone, works)
		}
		worst.goroutines, worst.descriptors = max(worst.goroutines, grown.goroutines), max(worst.descriptors, grown.descriptors)
		missing = max(missing, gone)
	}
	f.Worst = fmt.Sprintf("%d faults: goroutines +%d, descriptors +%d, pool connections +%d", faults, worst.goroutines, worst.descriptors, missing)
	s.Figure(f)
	s.Note("Faults are resets, replies of which half arrives, packets that vanish, and packets that come up to 20 ms late, in both directions, " +
		"on about one packet in six; 21 goroutines lock, extend and unlock with seven features meanwhile.")
	growth(s, servers, dialers)
}

// storm makes goroutines lock while the connections fail, until there were goal faults. It returns how many connections were
// not returned to their pools, and whether the locks still work.
func storm(s *evidence.Scene, t testing.TB, random *rand.Rand, servers []*redistest.Server, goal int) (faults, missing int, works error) {
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
			rng := rand.New(rand.NewPCG(random.Uint64(), 0)) //nolint:gosec // it has to be repeatable
			workers.Go(func() { toil(c.Mutex(m.Key()), rng, stop) })
		}
	}
	for _, p := range proxies {
		p.Treat(mischief(rand.New(rand.NewPCG(random.Uint64(), 0)))) //nolint:gosec // it has to be repeatable
	}
	for done() < goal {
		if t.Context().Err() != nil {
			t.Fatal(context.Cause(t.Context()))
		}
		s.Progress(done(), goal)
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

// checkedOut returns how many connections do not come back to their pools soon.
func checkedOut(pools []*redis.Pool) int {
	soon(func() bool { return out(pools) == 0 })
	return out(pools)
}

// out returns how many connections are in use.
func out(pools []*redis.Pool) (n int) {
	for _, p := range pools {
		n += p.ActiveCount() - p.IdleCount()
	}
	return n
}

// toil locks, extends and unlocks until stop is closed, and ignores all errors.
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

// mischief returns a function that draws what happens to a packet in a storm.
func mischief(rng *rand.Rand) func(reply bool) redistest.Treatment {
	return func(bool) redistest.Treatment {
		switch n := rng.IntN(120); {
		case n < 6:
			return redistest.Treatment{Harm: redistest.Reset}
		case n < 12:
			return redistest.Treatment{Harm: redistest.Halved}
		case n < 13:
			return redistest.Treatment{Harm: redistest.Silence} // seldom, because it costs a caller a node timeout
		case n < 20:
			return redistest.Treatment{Delay: time.Duration(1+rng.IntN(20)) * time.Millisecond}
		}
		return redistest.Treatment{}
	}
}

// growth counts the goroutines that 300 holds of redsync leave behind while two of five servers are paused. Those of this
// library end with the node timeout.
func growth(s *evidence.Scene, servers []*redistest.Server, dialers []peers.Dialer) {
	p := redsyncPeer(dialers, 0, redsync.WithExpiry(minorityTTL), redsync.WithFailFast(true))
	p.name = "redsync with FailFast"
	compare(s, p, func(t testing.TB, l peers.Library, f *evidence.Figure) {
		defer pause(servers, 1, 3)()
		const holds = 300
		f.Tried = 1
		before := runtime.NumGoroutine()
		for i := range holds {
			slot := l.Slot(fmt.Sprintf("growth %d", i))
			o := await(s, t, func() error {
				return errors.Join(slot.TryLock(context.Background()), slot.Unlock(context.Background()))
			})
			if o.still || o.err != nil {
				f.Worst = fmt.Sprintf("stuck after %d holds (%v), goroutines +%d", i, o.err, runtime.NumGoroutine()-before)
				return
			}
		}
		f.Worst = fmt.Sprintf("%d holds with 2 of 5 servers paused: goroutines +%d", holds, runtime.NumGoroutine()-before)
	})
}
