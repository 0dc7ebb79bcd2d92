package holds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// killed is the row of a holder whose process dies.
func killed() evidence.Row {
	return evidence.Played(evidence.Row{
		ID: 15, Name: "killed", Fault: "holder killed -9",
		Must: "the waiter recovers", Short: 6 * time.Second, Long: 60 * time.Second,
	}, func(s *evidence.Scene) {
		server := addrs(s, 1)
		noise := s.Noise()
		s.Note("The limits of the rows 5, 6, 15 and 16 are judged by the long version alone. So that it judges the library and not the machine, a goroutine that does nothing " +
			"but set a timer notes how late it is woken, and twice the worst of that during a measurement is allowed on top of the limit of that measurement.")
		sideBySide(s, []kit{
			{Library: "redimutex", Addrs: server, TTL: killedTTL},
			{Library: "redimutex", Addrs: server, TTL: killedTTL, Queue: true},
			{Library: "redsync", Addrs: server, TTL: killedTTL},
			{Library: "redislock", Addrs: server, TTL: killedTTL},
		}, 40, 400, func(i int, k kit, q *evidence.Quota) ([]evidence.Figure, error) {
			f, err := killHolders(s, q, k, noise, s.Random(i), fmt.Sprintf("killed-%d-", i))
			return []evidence.Figure{f}, err
		})
	})
}

const (
	killedTTL  = 600 * time.Millisecond
	killedKeys = 10 // the keys that one process holds
)

// killHolders kills one process after the other, and measures when the waiters for its locks have got them.
func killHolders(s *evidence.Scene, q *evidence.Quota, k kit, noise evidence.Noise, r *rand.Rand, prefix string) (evidence.Figure, error) {
	b := evidence.Bound{Limit: k.TTL + 50*time.Millisecond, Words: "TTL + 50 ms", Strict: s.Long, Steps: steps, Share: .99, Slack: patience}
	lib, err := k.open()
	if err != nil {
		return evidence.Figure{}, err
	}
	defer lib.Close()
	var samples []evidence.Sample
	for q.More() {
		keys := make([]string, killedKeys)
		for i := range keys {
			keys[i] = fmt.Sprintf("%s%d-%d", prefix, q.Done, i)
		}
		worker, err := hire(s, job{Kit: k, Keys: keys, Keep: true})
		if err != nil {
			return evidence.Figure{}, err
		}
		if _, err := worker.hear(s.Context(), sayHeld); err != nil {
			return evidence.Figure{}, err
		}
		ctx, cancel := context.WithTimeout(s.Context(), patience)
		defer cancel()
		got, errs := make([]evidence.Instant, len(keys)), make([]error, len(keys))
		var group sync.WaitGroup
		for i, key := range keys {
			group.Go(func() {
				h, err := lock(ctx, lib, key)
				if got[i] = evidence.Now(); err != nil {
					errs[i] = err
					return
				}
				h.Unlock(ctx) //nolint:errcheck // the wait is what counts
			})
		}
		evidence.Sleep(s.Context(), evidence.Between(r, 0, holdFor(k)))
		at := evidence.Now()
		worker.kill()
		group.Wait()
		for i := range keys {
			switch {
			case errs[i] != nil:
				b.Unheard++
			case got[i] < at:
				continue // the lease was lost before that, on a machine that was too slow
			default:
				samples = append(samples, evidence.Sample{Took: got[i].Sub(at), Noise: noise.Between(at, got[i])})
			}
		}
		q.Done += len(keys)
	}
	f := b.Figure(k.String(), samples)
	f.NotJudged = !k.judged()
	return f, nil
}

// holdFor returns how long a process holds its locks at most before it is killed. A library without renewal must not lose them
// before that.
func holdFor(k kit) time.Duration {
	if k.judged() {
		return 2 * k.TTL
	}
	return k.TTL / 6
}
