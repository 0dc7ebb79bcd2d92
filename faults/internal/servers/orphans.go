package servers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func droppedPath(s *evidence.Scene) {
	servers, _ := start(s, 3)
	proxies, dialers := proxied(s, servers)
	orphans(s, &scene{servers, dialers, s.Random(0), func() (heal func()) {
		for _, p := range proxies {
			p.Hold() // what is sent meanwhile arrives late, as over TCP, and no caller is told
		}
		return func() {
			for _, p := range proxies {
				p.Release()
			}
		}
	}}, 2)
}

func resumed(s *evidence.Scene) {
	servers, dialers := start(s, 3)
	orphans(s, &scene{servers, dialers, s.Random(0), func() (heal func()) { return pause(servers, 0, 1, 2) }}, 3)
}

// A scene is a cause of orphans: servers fall silent, and what is sent to them meanwhile arrives later.
type scene struct {
	servers []*redistest.Server
	dialers []peers.Dialer
	random  *rand.Rand
	strike  func() (heal func())
}

// askers is how many goroutines of a feature lock during one fault, each for a key of its own.
const askers = 5

// orphans takes locks and gives up calls while the fault comes and goes. It counts the keys that are left when no process
// holds a lock any more.
func orphans(s *evidence.Scene, x *scene, short int) {
	ours, won := evidence.Figure{Library: evidence.Ours}, 0
	for q := s.Quota(short, 10*short); q.More(); q.Done++ {
		s.Round(func(t testing.TB) {
			var tries []trial
			for _, f := range all {
				c := f.client(t, x.dialers, hour)
				for i := range askers {
					m := c.Mutex(fmt.Sprintf("%d %s %d", q.Done, f.name, i))
					warm(t, c.Mutex(m.Key()+" before"), q.Done%2 == 0)
					tries = append(tries, trial{m.Key(), func(ctx context.Context) error { return m.LockContext(ctx, 0) }, m.UnlockContext})
				}
			}
			won += x.play(s, tries)
			if left := x.left(tries, true, &ours); len(left) > 0 {
				s.Note("Orphans after round %d: %q.", q.Done, left)
			}
		})
	}
	s.Figure(ours)
	s.Note("Of the %d tries %d got the lock in time, and gave it back during the fault. TTL 1 h, so that no key goes by itself.", ours.Tried, won)
	// Each try of another library has connections of its own, with timeouts as short as the callers' patience.
	for _, p := range bothPeers(x.dialers[:1], hour, 50*time.Millisecond, true) {
		compare(s, p, func(t testing.TB, _ peers.Library, f *evidence.Figure) {
			var tries []trial
			for i := range 15 {
				key := fmt.Sprintf("%s %d", p.name, i)
				locks := p.open(t)
				works(t, locks, key)
				l := locks.Slot(key)
				tries = append(tries, trial{key, l.TryLock, l.Unlock})
			}
			x.play(s, tries)
			x.left(tries, false, f)
		})
	}
}

// warm locks and unlocks m if yes is set, so that there are connections.
func warm(t testing.TB, m interface {
	LockContext(context.Context, time.Duration) error
	UnlockContext(context.Context) error
}, yes bool,
) {
	if !yes {
		return
	}
	if err := m.LockContext(context.Background(), forever); err != nil {
		t.Fatal(err)
	}
	_ = m.UnlockContext(context.Background()) // on a slow machine the lease may be over
}

// A trial is a lock of one key that a caller gives up soon.
type trial struct {
	key          string
	lock, unlock func(ctx context.Context) error
}

// play makes all tries at about the time of the fault, and returns how many got the lock.
func (x *scene) play(s *evidence.Scene, tries []trial) (won int) {
	var locked atomic.Int32
	var group sync.WaitGroup
	for _, try := range tries {
		begin := evidence.Between(x.random, 0, 20*time.Millisecond)
		patience := evidence.Between(x.random, 15*time.Millisecond, 60*time.Millisecond)
		group.Go(func() {
			evidence.Sleep(s.Context(), begin)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if try.lock(ctx) != nil {
				return
			}
			locked.Add(1)
			evidence.Sleep(s.Context(), 10*time.Millisecond)
			ctx, cancel = context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = try.unlock(ctx)
		})
	}
	evidence.Sleep(s.Context(), 5*time.Millisecond)
	heal := x.strike()
	evidence.Sleep(s.Context(), 150*time.Millisecond)
	heal()
	group.Wait()
	return int(locked.Load())
}

// settled is the time after a fault in which messages that were under way arrive: TCP sends again after 0.2, 0.4 and 0.8 s.
const settled = 1500 * time.Millisecond

// left returns the keys of tries that are still on a server when the time settled has passed after the fault, and counts them
// in f. If patient is set, left then waits for the keys to go; see soon.
func (x *scene) left(tries []trial, patient bool, f *evidence.Figure) (keys []string) {
	time.Sleep(settled)
	look := func() bool {
		keys = nil
		for _, try := range tries {
			if slices.ContainsFunc(x.servers, func(s *redistest.Server) bool { return s.Exists(try.key) }) {
				keys = append(keys, try.key)
			}
		}
		return len(keys) == 0
	}
	if !look() && patient {
		soon(look)
	}
	f.Held, f.Tried = f.Held+len(tries)-len(keys), f.Tried+len(tries)
	f.Worst = fmt.Sprintf("%d orphans", f.Tried-f.Held)
	return keys
}
