package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// What is done to the primary.
const (
	killed      = "killed"
	paused      = "paused"
	partitioned = "partitioned"
)

// An ack is a lock that a library has acknowledged.
type ack struct {
	key, token string
	fence      int64
	asked, got time.Time
}

// A ledger has the locks that a library has acknowledged, and what became of them.
type ledger struct {
	locker
	mu    sync.Mutex
	acks  []ack
	lost  int // acks that are not on the new primary, though they are valid
	rises int // fences of later holders that were higher
	falls int // fences of later holders that were not higher
	slow  time.Duration
}

func (l *ledger) add(a ack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = append(l.acks, a)
	l.slow = max(l.slow, a.got.Sub(a.asked))
}

// A scene is one failover, in which all workers lock one key after another all the time.
type scene struct {
	*group
	fault   string
	ledgers []*ledger
	random  *rand.Rand
	took    time.Duration // from the fault to the new primary
}

// traffic is how long there is traffic before the fault and after it.
const traffic = time.Second

// play makes the victim fail, and returns the scene, in which the locks were judged.
func play(ctx context.Context, t testing.TB, g *group, fault string, seed uint64) *scene {
	s := &scene{group: g, fault: fault, random: rand.New(rand.NewPCG(seed, 17))}
	for _, l := range lockers() {
		s.ledgers = append(s.ledgers, &ledger{locker: l})
	}
	stop := s.start(ctx, t)
	s.wait(ctx, traffic+time.Duration(s.random.Int64N(int64(traffic/4))))
	began := time.Now()
	old := g.servers[g.victim]
	switch fault {
	case killed:
		old.Kill()
	case paused:
		old.Pause()
	case partitioned:
		g.wires.cut(g.victim)
	}
	redistest.Wait(t, "a replica is the primary", func() bool {
		now := g.primary()
		return now != noMachine && now != g.victim
	})
	s.took = time.Since(began)
	s.wait(ctx, traffic/2)
	switch fault { // a primary that hung or was cut off comes back with all that is still under way
	case paused:
		old.Resume()
	case partitioned:
		g.wires.cut(noMachine)
	}
	s.wait(ctx, traffic/2)
	stop()
	s.judge(ctx, t)
	return s
}

func (s *scene) wait(ctx context.Context, d time.Duration) { evidence.Sleep(ctx, d) }

// start lets all workers lock one key after another until stop is called.
func (s *scene) start(ctx context.Context, t testing.TB) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	for _, l := range s.ledgers {
		for side, beside := range []bool{false, true} {
			lock := l.open(t, s.group, beside)
			for n := range l.workers {
				workers.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						key := fmt.Sprintf("{%s}:%s:%d:%d:%d", s.tag, l.name, side, n, i)
						a := ack{key: key, asked: time.Now()}
						var err error
						if a.token, a.fence, err = lock(ctx, key); err == nil {
							a.got = time.Now()
							l.add(a)
						}
						s.wait(ctx, time.Millisecond) // so that two cores are enough
					}
				})
			}
		}
	}
	return func() {
		cancel()
		workers.Wait()
	}
}

// successors is how many lost locks, and how many kept ones, another client takes in the end, to compare its fences.
const successors = 200

// judge compares what was acknowledged with what the new primary knows.
func (s *scene) judge(ctx context.Context, t testing.TB) {
	now := noMachine
	redistest.Wait(t, "there is one primary", func() bool {
		now = s.primary()
		return now != noMachine && now != s.victim
	})
	for _, l := range s.ledgers {
		keys := make([]string, len(l.acks))
		for i, a := range l.acks {
			keys[i] = a.key
		}
		values, err := s.has(now, keys)
		if err != nil {
			t.Fatal(err)
		}
		var lost, kept []ack
		for i, a := range l.acks {
			switch {
			case time.Since(a.asked) > ttl*9/10:
				continue // the lease may be over by now
			case values[i] != a.token:
				lost = append(lost, a)
			default:
				kept = append(kept, a)
			}
		}
		l.lost = len(lost)
		if l.ours {
			s.succeed(ctx, t, l, now, lost)
			s.succeed(ctx, t, l, now, kept)
		}
	}
}

// succeed takes locks as another client, after their holders, and looks whether its fences are higher. If a lock still exists,
// succeed deletes it first, as if it had expired.
func (s *scene) succeed(ctx context.Context, t testing.TB, l *ledger, now int, before []ack) {
	s.random.Shuffle(len(before), func(i, j int) { before[i], before[j] = before[j], before[i] })
	// Straight to the new primary, and with a long node timeout: a busy machine may need more than a usual one to find it
	// each time.
	lock := redimutexTry(t, s.servers[now].Pool(), redimutex.WithNodeTimeout(20*time.Second))
	for _, a := range before[:min(successors, len(before))] {
		s.servers[now].Do("DEL", a.key)
		var fence int64
		redistest.Wait(t, "somebody else takes the lock", func() (ok bool) {
			var err error
			_, fence, err = lock(ctx, a.key)
			return err == nil
		})
		if fence > a.fence {
			l.rises++
		} else {
			l.falls++
		}
	}
}
