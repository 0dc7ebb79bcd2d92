package holds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// paused is the process that is stopped while it holds the lock, until another has taken it over and
// has written. It wakes up between its look at the lease and its write.
func paused() evidence.Row {
	return evidence.Played(evidence.Row{
		ID: 4, Name: "paused", Fault: "holder paused by SIGSTOP for longer than its lease",
		Must: "stale 0; lease invalid on waking", Short: 8 * time.Second, Long: 60 * time.Second,
	}, func(s *evidence.Scene) {
		trio := addrs(s, 3)
		pauseAll(s, []kit{
			{Library: "redimutex", Fencing: true, TTL: pausedTTL, Addrs: trio[:1]},
			{Library: "redimutex", Fencing: true, TTL: pausedTTL, Addrs: trio[:1], Queue: true},
			{Library: "redimutex", Fencing: true, TTL: pausedTTL, Addrs: trio},
			{Library: "redsync", TTL: pausedTTL, Addrs: trio[:1]},
			{Library: "redislock", TTL: pausedTTL, Addrs: trio[:1]},
		})
	})
}

const pausedTTL = 300 * time.Millisecond

// pauseAll pauses the holders of all kits, side by side.
func pauseAll(s *evidence.Scene, kits []kit) {
	sideBySide(s, kits, 8, 100, func(i int, k kit, q *evidence.Quota) ([]figure, error) {
		f, err := pauseHolders(s, q, k, s.Random(i), fmt.Sprintf("paused-%d", i))
		return []figure{f}, err
	})
	s.Note("The resource is another process, which remembers the highest fence and refuses a lower one. A holder that was paused nearly always has a write under way when " +
		"it wakes up, because it was stopped between its look at the lease and the write; libraries without fences give the resource nothing to refuse it by.")
}

// pauseHolders has two processes take turns at being paused.
func pauseHolders(s *evidence.Scene, q *evidence.Quota, k kit, r *rand.Rand, key string) (figure, error) {
	f := figure{Library: k.String(), NotJudged: !k.judged()}
	pair := make([]hand, 2)
	for i := range pair {
		var err error
		if pair[i], err = hire(s, job{Kit: k, Keys: []string{key}, Obey: true}); err != nil {
			return f, err
		}
	}
	var sum pauseOutcome
	for i := 0; q.More(); i++ {
		o, err := pauseOne(s.Context(), pair[i%2], pair[(i+1)%2], between(r, 5*time.Millisecond, 30*time.Millisecond))
		if err != nil {
			return f, fmt.Errorf("%s: %w", k, err)
		}
		if !o.counts {
			continue
		}
		q.Done++
		f.Tried++
		if o.stale == 0 && o.blind == 0 && o.denied == 0 {
			f.Held++
		}
		sum.late += o.late
		sum.stale += o.stale
		sum.blind += o.blind
		sum.denied += o.denied
	}
	f.Worst = fmt.Sprintf("%d late writes, %d accepted; lease seemed valid %d times", sum.late, sum.stale, sum.blind)
	if sum.denied > 0 {
		f.Worst += fmt.Sprintf("; %d writes of the rightful holder refused", sum.denied)
	}
	return f, nil
}

// A pauseOutcome is what came of one pause.
type pauseOutcome struct {
	counts bool // it hit the holder at its work
	late   int  // writes that it tried after the other had written
	stale  int  // of those, how many the resource accepted
	blind  int  // looks at the lease after waking that found it valid
	denied int  // writes of the other that the resource refused
}

// A resource refuses a write with a fence that is lower than one it has seen.
type resource struct {
	mu      sync.Mutex
	highest int64
	taken   bool    // the second holder has written
	woken   instant // when the first was woken; 0: not yet
	pauseOutcome
}

// byFirst is a write of the holder that is paused.
func (r *resource) byFirst(m message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	accepted := r.accept(m.Fence)
	if r.taken {
		r.late++
		if accepted {
			r.stale++
		}
	}
	if r.woken != 0 && m.Looked >= r.woken {
		r.blind++
	}
	return accepted
}

// bySecond is a write of the one that has taken over.
func (r *resource) bySecond(m message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = true
	accepted := r.accept(m.Fence)
	if !accepted {
		r.denied++
	}
	return accepted
}

func (r *resource) accept(fence int64) bool {
	if fence < r.highest {
		return false
	}
	r.highest = fence
	return true
}

// pauseOne stops a while it works, lets b take over and write, and wakes a up again.
func pauseOne(ctx context.Context, a, b hand, after time.Duration) (pauseOutcome, error) {
	var none pauseOutcome
	r := new(resource)
	if _, err := a.ask(ctx, sayLock, sayHeld, nil); err != nil {
		return none, err
	}
	type ending struct {
		message
		err error
	}
	over := make(chan ending, 1)
	go func() {
		m, err := a.ask(ctx, sayWork, sayLost, r.byFirst)
		over <- ending{m, err}
	}()
	pause(ctx, after)
	if err := a.Stop(patience); err != nil {
		return none, err
	}
	stopped := now()
	_, lockErr := b.ask(ctx, sayLock, sayHeld, nil)
	_, writeErr := b.ask(ctx, sayWrite, sayWritten, r.bySecond)
	r.mu.Lock()
	r.woken = now()
	r.mu.Unlock()
	if err := errors.Join(lockErr, writeErr, a.Resume()); err != nil {
		return none, err
	}
	end := <-over
	_, writeErr = b.ask(ctx, sayWrite, sayWritten, r.bySecond)
	_, unlockErr := b.ask(ctx, sayUnlock, sayUnlocked, nil)
	_, unlockLostErr := a.ask(ctx, sayUnlock, sayUnlocked, nil)
	if err := errors.Join(end.err, writeErr, unlockErr, unlockLostErr); err != nil {
		return none, err
	}
	r.counts = end.Looked >= stopped
	return r.pauseOutcome, nil
}
