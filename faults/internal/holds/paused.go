package holds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// paused is the row of a process that is stopped while it holds the lock, until another process has got the lock and has
// written. The first process wakes up between its look at the lease and its write.
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
	sideBySide(s, kits, 8, 100, func(i int, k kit, q *evidence.Quota) ([]evidence.Figure, error) {
		f, err := pauseHolders(s, q, k, s.Random(i), fmt.Sprintf("paused-%d", i))
		return []evidence.Figure{f}, err
	})
	s.Note("The resource is another process, which remembers the highest fence and refuses a lower one. A holder that was paused nearly always has a write under way when " +
		"it wakes up, because it was stopped between its look at the lease and the write; libraries without fences give the resource nothing to refuse it by.")
}

// pauseHolders pauses two processes in turn.
func pauseHolders(s *evidence.Scene, q *evidence.Quota, k kit, r *rand.Rand, key string) (evidence.Figure, error) {
	f := evidence.Figure{Library: k.String(), NotJudged: !k.judged()}
	resource := redistest.Real(s)
	pair := make([]hand, 2)
	for i := range pair {
		var err error
		if pair[i], err = hire(s, job{Kit: k, Keys: []string{key}, Resource: resource.Addr(), Number: i}); err != nil {
			return f, err
		}
	}
	var sum pauseOutcome
	for i := 0; q.More(); i++ {
		o, err := pauseOne(s.Context(), resource, pair, i%2, evidence.Between(r, 5*time.Millisecond, 30*time.Millisecond))
		if err != nil {
			return f, fmt.Errorf("%s: %w", k, err)
		}
		if !o.counts {
			continue
		}
		q.Done++
		f.Count(o.stale == 0 && o.blind == 0 && o.denied == 0)
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

// A pauseOutcome is the outcome of one pause.
type pauseOutcome struct {
	counts bool // the pause hit the holder at its work
	late   int  // writes that the paused holder tried after the other had written
	stale  int  // of those, how many the resource accepted
	blind  int  // looks at the lease after waking that found it valid
	denied int  // writes of the other that the resource refused
}

// A write is one that the resource was asked for, as the resource has noted it.
type write struct {
	Who, Accepted int
	Looked        evidence.Instant // just before the holder looked whether its hold was valid
}

// writing is the resource's script. It refuses a fence that is lower than one that it has seen, and notes each write. KEYS are
// the highest fence and the notes. ARGV are the writer, the fence and the moment at which the writer looked at its lease.
var writing = redis.NewScript(2, `local accepted = tonumber(ARGV[2]) >= tonumber(redis.call('GET', KEYS[1]) or 0) and 1 or 0
	if accepted == 1 then redis.call('SET', KEYS[1], ARGV[2]) end
	return redis.call('RPUSH', KEYS[2], '{"Who":' .. ARGV[1] .. ',"Accepted":' .. accepted .. ',"Looked":' .. ARGV[3] .. '}')`)

// judge goes through the writes. first is the holder that was paused.
func (o *pauseOutcome) judge(notes []string, first int, woken evidence.Instant) error {
	taken := false // the second holder has written
	for _, note := range notes {
		var w write
		if err := json.Unmarshal([]byte(note), &w); err != nil {
			return err
		}
		switch {
		case w.Who != first:
			taken = true
			o.denied += 1 - w.Accepted
			continue
		case taken:
			o.late++
			o.stale += w.Accepted
		}
		if w.Looked >= woken {
			o.blind++
		}
	}
	return nil
}

// pauseOne stops one process while it works, lets the other one get the lock and write, and wakes the first one up again.
func pauseOne(ctx context.Context, resource *redistest.Server, pair []hand, first int, after time.Duration) (o pauseOutcome, err error) {
	a, b := pair[first], pair[1-first]
	resource.Do("DEL", notes)
	if _, err := a.ask(ctx, sayLock, sayHeld); err != nil {
		return o, err
	}
	if err := a.tell(sayWork); err != nil {
		return o, err
	}
	evidence.Sleep(ctx, after)
	if err := a.Stop(patience); err != nil {
		return o, err
	}
	stopped := evidence.Now()
	_, lockErr := b.ask(ctx, sayLock, sayHeld)
	_, writeErr := b.ask(ctx, sayWrite, sayWritten)
	woken := evidence.Now()
	if err := errors.Join(lockErr, writeErr, a.Resume()); err != nil {
		return o, err
	}
	end, endErr := a.hear(ctx, sayLost)
	_, writeErr = b.ask(ctx, sayWrite, sayWritten)
	_, unlockErr := b.ask(ctx, sayUnlock, sayUnlocked)
	_, unlockLostErr := a.ask(ctx, sayUnlock, sayUnlocked)
	written, readErr := redis.Strings(resource.Do("LRANGE", notes, 0, -1), nil)
	o.counts = end.Looked >= stopped
	return o, errors.Join(endErr, writeErr, unlockErr, unlockLostErr, readErr, o.judge(written, first, woken))
}

// The keys of the resource.
const highest, notes = "highest", "notes"
