package holds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// killed is the holder whose process dies.
func killed() evidence.Row {
	return staged(evidence.Row{
		ID: 15, Name: "killed", Fault: "holder killed -9",
		Must: "the waiter recovers", Short: 6 * time.Second, Long: 60 * time.Second,
	}, func(t testing.TB, row evidence.Row, s evidence.Setup) (r evidence.Result, err error) {
		server := addrs(t, 1)
		noise := listen()
		defer noise.close()
		r.Notes = []string{noiseNote}
		r.Figures, err = sideBySide(t, row, s, []kit{
			{Library: "redimutex", Addrs: server, TTL: killedTTL},
			{Library: "redimutex", Addrs: server, TTL: killedTTL, Queue: true},
			{Library: "redsync", Addrs: server, TTL: killedTTL},
			{Library: "redislock", Addrs: server, TTL: killedTTL},
		}, 40, 400, func(i int, k kit, q *quota) ([]evidence.Figure, error) {
			f, err := killHolders(t, q, k, noise, random(s, i), fmt.Sprintf("killed-%d-", i))
			return []evidence.Figure{f}, err
		})
		return r, err
	})
}

const (
	killedTTL  = 600 * time.Millisecond
	killedKeys = 10 // that one process holds
)

// killHolders kills one process after the other, and measures when those who wait for its locks have them.
func killHolders(t testing.TB, q *quota, k kit, noise noise, r *rand.Rand, prefix string) (evidence.Figure, error) {
	b := bound{limit: k.TTL + 50*time.Millisecond, words: "TTL + 50 ms", strict: q.setup.Long, share: .99, slack: patience}
	lib, err := k.open()
	if err != nil {
		return evidence.Figure{}, err
	}
	defer lib.Close()
	var samples []sample
	for q.more() {
		keys := make([]string, killedKeys)
		for i := range keys {
			keys[i] = fmt.Sprintf("%s%d-%d", prefix, q.done, i)
		}
		worker, err := hire(t, job{Kit: k, Keys: keys, Keep: true})
		if err != nil {
			return evidence.Figure{}, err
		}
		if _, err := worker.hear(q.ctx, sayHeld); err != nil {
			return evidence.Figure{}, err
		}
		ctx, cancel := context.WithTimeout(q.ctx, patience)
		defer cancel()
		got, errs := make([]instant, len(keys)), make([]error, len(keys))
		var group sync.WaitGroup
		for i, key := range keys {
			group.Go(func() {
				h, err := lock(ctx, lib, key)
				if got[i] = now(); err != nil {
					errs[i] = err
					return
				}
				h.Unlock(ctx) //nolint:errcheck // the wait is what counts
			})
		}
		pause(q.ctx, between(r, 0, holdFor(k)))
		at := now()
		worker.kill()
		group.Wait()
		for i := range keys {
			switch {
			case errs[i] != nil:
				b.unheard++
			case got[i] < at:
				continue // it was lost before, on a machine that holds everything up
			default:
				samples = append(samples, sample{got[i].sub(at), noise.worst(at, got[i])})
			}
		}
		q.done += len(keys)
	}
	f := b.figure(k.String(), samples)
	f.NotJudged = !k.judged()
	return f, nil
}

// holdFor is how long a process holds its locks at most until it is killed. Those that have no renewal
// must not lose them before.
func holdFor(k kit) time.Duration {
	if k.judged() {
		return 2 * k.TTL
	}
	return k.TTL / 6
}
