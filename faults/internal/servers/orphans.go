package servers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func droppedPathRow() evidence.Row {
	return played(evidence.Row{
		ID: 11, Name: "dropped-path", Fault: "path dropped, then healed", Must: "no orphan",
		Short: 8 * time.Second, Long: 2 * time.Minute,
	}, func(r *run) {
		servers, _ := start(r, 3)
		proxies, dialers := proxied(r, servers)
		orphans(r, &scene{servers, dialers, func(broken bool) {
			for _, p := range proxies {
				if broken {
					p.Hold() // what is sent meanwhile arrives late, as over TCP, and no caller is told
				} else {
					p.Release()
				}
			}
		}}, 2)
	})
}

func resumedRow() evidence.Row {
	return played(evidence.Row{
		ID: 12, Name: "resumed", Fault: "server paused, resumed", Must: "no orphan",
		Short: 8 * time.Second, Long: 2 * time.Minute,
	}, func(r *run) {
		servers, dialers := start(r, 3)
		orphans(r, &scene{servers, dialers, func(broken bool) {
			if broken {
				pause(servers, 0, 1, 2)
			} else {
				resume(servers, 0, 1, 2)
			}
		}}, 3)
	})
}

// A scene is where orphans could come from: servers that fall silent, and what was sent to them in
// the meantime arrives later.
type scene struct {
	servers []*redistest.Server
	dialers []peers.Dialer
	broken  func(bool)
}

// askers is how many goroutines of a feature lock during one fault, each for a key of its own.
const askers = 5

// orphans has locks taken and given up while the fault comes and goes, and counts the keys that are
// left when no process holds any lock.
func orphans(r *run, s *scene, short int) {
	held, tried, won := 0, 0, 0
	for round := 0; r.more(round, short, 10*short); round++ {
		r.Round(func(t testing.TB) {
			var tries []trial
			for _, f := range all {
				c := f.client(t, s.dialers, hour)
				for i := range askers {
					m := c.Mutex(fmt.Sprintf("%d %s %d", round, f.name, i))
					warm(t, c.Mutex(m.Key()+" before"), round%2 == 0)
					tries = append(tries, trial{m.Key(), func(ctx context.Context) error { return m.LockContext(ctx, 0) }, m.UnlockContext})
				}
			}
			won += s.play(r, tries)
			left := s.left(tries, true)
			tried += len(tries)
			held += len(tries) - len(left)
			if len(left) > 0 {
				r.Note("Orphans after round %d: %q.", round, left)
			}
		})
	}
	r.Figure(evidence.Figure{
		Library: evidence.Ours, Held: held, Tried: tried,
		Worst: fmt.Sprintf("%d orphans", tried-held),
	})
	r.Note("Of the %d tries %d got the lock in time, and gave it back during the fault. TTL 1 h, so that no key goes by itself.", tried, won)
	// Each try of the others has connections of its own, with timeouts as short as the callers' patience.
	others := bothPeers(s.dialers[:1], hour, 50*time.Millisecond, true)
	for i, p := range others {
		r.compare(others[i:i+1], func(t testing.TB, name string, _ peers.Library) (int, int, string) {
			var tries []trial
			for i := range 15 {
				key := fmt.Sprintf("%s %d", name, i)
				locks := p.open(t)
				works(t, locks, key)
				l := locks.Slot(key)
				tries = append(tries, trial{key, l.TryLock, l.Unlock})
			}
			s.play(r, tries)
			left := s.left(tries, false)
			return len(tries) - len(left), len(tries), fmt.Sprintf("%d orphans", len(left))
		})
	}
}

// warm locks and unlocks, so that there are connections, if yes.
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
	_ = m.UnlockContext(context.Background()) // of a late machine the lease may be over
}

// A trial is a lock of one key that a caller gives up soon.
type trial struct {
	key          string
	lock, unlock func(ctx context.Context) error
}

// play has all locked at about the time of the fault, and returns how many got the lock.
func (s *scene) play(r *run, tries []trial) (won int) {
	var locked atomic.Int32
	var group sync.WaitGroup
	for _, try := range tries {
		begin, patience := r.between(0, 20*time.Millisecond), r.between(15*time.Millisecond, 60*time.Millisecond)
		group.Go(func() {
			evidence.Sleep(r.Context(), begin)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if try.lock(ctx) != nil {
				return
			}
			locked.Add(1)
			evidence.Sleep(r.Context(), 10*time.Millisecond)
			ctx, cancel = context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = try.unlock(ctx)
		})
	}
	evidence.Sleep(r.Context(), 5*time.Millisecond)
	s.broken(true)
	evidence.Sleep(r.Context(), 150*time.Millisecond)
	s.broken(false)
	group.Wait()
	return int(locked.Load())
}

// settled is the time after a fault in which what was under way arrives: TCP repeats itself in
// 0.2, 0.4 and 0.8 s.
const settled = 1500 * time.Millisecond

// left returns the keys of tries that are still there after the fault. With patient it waits for
// them to go for as long as it has to, once all is settled.
func (s *scene) left(tries []trial, patient bool) []string {
	time.Sleep(settled)
	end := time.Now()
	if patient {
		end = end.Add(forever)
	}
	for {
		var keys []string
		for _, server := range s.servers {
			for _, try := range tries {
				if server.Exists(try.key) {
					keys = append(keys, try.key)
				}
			}
		}
		if len(keys) == 0 || !time.Now().Before(end) {
			return keys
		}
		time.Sleep(10 * time.Millisecond)
	}
}
