package servers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func droppedPathRow() evidence.Row {
	return evidence.Row{
		ID: 11, Name: "dropped-path", Fault: "path dropped, then healed", Must: "no orphan",
		Short: 8 * time.Second, Long: 2 * time.Minute, Run: play(func(r *run) {
			p := newPath(r.t, 3)
			r.note("The path was dropped by " + p.kind + ".")
			orphans(r, &scene{
				servers: p.servers, dialers: p.dialers, inside: p.inside,
				strike: func() { p.broken(true) }, heal: func() { p.broken(false) },
			}, 2)
		}),
	}
}

func resumedRow() evidence.Row {
	return evidence.Row{
		ID: 12, Name: "resumed", Fault: "server paused, resumed", Must: "no orphan",
		Short: 8 * time.Second, Long: 2 * time.Minute, Run: play(func(r *run) {
			servers, dialers := start(r.t, 3)
			every := []int{0, 1, 2}
			orphans(r, &scene{
				servers: servers, dialers: dialers, inside: func(f func()) { f() },
				strike: func() { pause(servers, every) }, heal: func() { resume(servers, every) },
			}, 3)
		}),
	}
}

// A scene is where orphans could come from: servers that fall silent, and what was sent to them in
// the meantime arrives later.
type scene struct {
	servers      []*redistest.Server
	dialers      []peers.Dialer
	inside       func(func())
	strike, heal func()
}

// askers is how many goroutines of a feature lock during one fault, each for a key of its own.
const askers = 5

// orphans has locks taken and given up while the fault comes and goes, and counts the keys that are
// left when no process holds any lock.
func orphans(r *run, s *scene, short int) {
	held, tried, won := 0, 0, 0
	for round := 0; r.more(round, short, 10*short); round++ {
		r.round(func(t testing.TB) {
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
				r.note(fmt.Sprintf("Orphans after round %d: %q.", round, left))
			}
		})
	}
	r.figure(evidence.Figure{
		Library: evidence.Ours, Held: held, Tried: tried,
		Worst: fmt.Sprintf("%d orphans", tried-held),
	})
	r.note(fmt.Sprintf("Of the %d tries %d got the lock in time, and gave it back during the fault. TTL 1 h, so that no key goes by itself.", tried, won))
	for _, p := range bothPeers(s.dialers[:1], hour, 50*time.Millisecond, true) {
		r.round(func(t testing.TB) { s.playPeer(r, t, p.name, p.open) })
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
			timer := time.NewTimer(begin)
			<-timer.C
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if try.lock(ctx) != nil {
				return
			}
			locked.Add(1)
			timer.Reset(10 * time.Millisecond)
			<-timer.C
			ctx, cancel = context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = try.unlock(ctx)
		})
	}
	timer := time.NewTimer(5 * time.Millisecond)
	<-timer.C
	s.strike()
	timer.Reset(150 * time.Millisecond)
	<-timer.C
	s.heal()
	group.Wait()
	return int(locked.Load())
}

// settled is the time after a fault in which what was under way arrives: TCP repeats itself in
// 0.2, 0.4 and 0.8 s.
const settled = 1500 * time.Millisecond

// left returns the keys of tries that are still there after the fault. With patient it waits for
// them to go for as long as it has to, once all is settled.
func (s *scene) left(tries []trial, patient bool) []string {
	timer := time.NewTimer(settled)
	<-timer.C
	end := time.Now()
	if patient {
		end = end.Add(forever)
	}
	for {
		var keys []string
		s.inside(func() {
			for _, server := range s.servers {
				for _, try := range tries {
					if n, _ := redis.Int(server.Do("EXISTS", try.key), nil); n > 0 {
						keys = append(keys, try.key)
					}
				}
			}
		})
		if len(keys) == 0 || !time.Now().Before(end) {
			return keys
		}
		timer.Reset(10 * time.Millisecond)
		<-timer.C
	}
}

// playPeer does the same with another library, each try over connections of its own, with timeouts
// as short as the callers' patience.
func (s *scene) playPeer(r *run, t testing.TB, name string, open func(testing.TB) peers.Library) {
	var tries []trial
	for i := range 15 {
		key := fmt.Sprintf("%s %d", name, i)
		locks := open(t)
		works(t, locks, key)
		l := locks.Slot(key)
		tries = append(tries, trial{key, l.TryLock, l.Unlock})
	}
	s.play(r, tries)
	left := s.left(tries, false)
	r.figure(evidence.Figure{
		Library: name, Held: len(tries) - len(left), Tried: len(tries), Worst: fmt.Sprintf("%d orphans", len(left)), NotJudged: true,
	})
}
