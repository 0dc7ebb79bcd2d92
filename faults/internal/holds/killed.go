package holds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// killed is the holder whose process dies.
func killed() evidence.Row {
	row := evidence.Row{
		ID: 15, Name: "killed", Fault: "holder killed -9",
		Must: "the waiter recovers", Short: 6 * time.Second, Long: 60 * time.Second,
	}
	row.Run = func(ctx context.Context, s evidence.Setup) (r evidence.Result, err error) {
		err = evidence.Stage(ctx, func(t testing.TB) {
			addrs := []string{redistest.Real(t).Addr()}
			kits := []kit{
				{Library: "redimutex", Addrs: addrs},
				{Library: "redimutex", Addrs: addrs, Queue: true},
				{Library: "redsync", Addrs: addrs},
				{Library: "redislock", Addrs: addrs},
			}
			noise := listen()
			defer noise.close()
			figures, errs := make([]evidence.Figure, len(kits)), make([]error, len(kits))
			var group sync.WaitGroup
			for i, k := range kits {
				quiet := s
				if i > 0 {
					quiet.Report = nil
				}
				k.TTL = killedTTL
				q := newQuota(t.Context(), quiet, row, 40, 400)
				group.Go(func() {
					figures[i], errs[i] = killHolders(t, q, k, noise, random(s, i), fmt.Sprintf("killed-%d-", i))
				})
			}
			group.Wait()
			r, err = evidence.Result{Figures: figures, Notes: []string{noiseNote}}, errors.Join(errs...)
		})
		return r, err
	}
	return row
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
