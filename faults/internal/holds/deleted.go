package holds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

// deleted is the row of a key that goes away while it is held, by a DEL or because the server is full.
func deleted() evidence.Row {
	return evidence.Played(evidence.Row{
		ID: 5, Name: "deleted", Fault: "key deleted or evicted while held",
		Must: "loss signalled", Short: 6 * time.Second, Long: 60 * time.Second,
	}, func(s *evidence.Scene) {
		plain := addrs(s, 1)
		full := []string{redistest.Real(s, "--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru").Addr()}
		deleteAll(s, []deletion{
			{kit{Library: "redimutex", Addrs: plain}, remove, "DEL", 0},
			{kit{Library: "redimutex", Addrs: full}, evict, "evicted", 0},
			{kit{Library: "redsync", Addrs: plain}, remove, "DEL", 0},
			{kit{Library: "redislock", Addrs: plain}, remove, "DEL", 0},
		})
	})
}

const (
	deletedTTL  = 900 * time.Millisecond
	deletedKeys = 20 // held at once
	gracePeriod = 10 * time.Second
)

// A deletion makes keys go away.
type deletion struct {
	kit kit
	// do makes the keys go away at random moments. It calls gone for each key, with two instants: at the first the key was
	// still on the server, and at the second it was not.
	do   func(ctx context.Context, r *rand.Rand, addr string, keys []string, gone func(key int, before, after evidence.Instant)) error
	name string
	wait time.Duration // how long to wait for a signal; 0: gracePeriod
}

func deleteAll(s *evidence.Scene, ds []deletion) {
	noise := s.Noise()
	sideBySide(s, ds, 100, 1000, func(i int, d deletion, q *evidence.Quota) ([]evidence.Figure, error) {
		d.kit.TTL = deletedTTL
		f, err := deleteHeld(s, q, d, noise, s.Random(i), fmt.Sprintf("deleted-%d-", i))
		return []evidence.Figure{f}, err
	})
	s.Note("The time runs from just before the DEL was sent, or from the last look that found the key before it was evicted, and the round trip in the limit is the time until that was answered. " +
		"redsync and redislock have no signal: what counts for them is a loop around Extend or Refresh, every TTL/3, that the caller has to write, and it is not counted as held.")
}

// deleteHeld locks keys, lets d delete them, and measures how long it takes until the losses are signalled.
func deleteHeld(s *evidence.Scene, q *evidence.Quota, d deletion, noise evidence.Noise, r *rand.Rand, prefix string) (evidence.Figure, error) {
	lib, err := d.kit.open()
	if err != nil {
		return evidence.Figure{}, err
	}
	defer lib.Close()
	if d.wait == 0 {
		d.wait = gracePeriod
	}
	b := evidence.Bound{Limit: deletedTTL / 3, Words: "TTL/3 + a round trip", Strict: s.Long, Steps: steps, Share: .99, Slack: d.wait}
	var samples []evidence.Sample
	signal := true
	for q.More() {
		keys, watches := make([]string, deletedKeys), make([]*watch, deletedKeys)
		held := make([]peers.Slot, deletedKeys)
		for i := range keys {
			keys[i] = fmt.Sprintf("%s%d-%d", prefix, q.Done, i)
			h, err := lock(s.Context(), lib, keys[i])
			if err != nil {
				return evidence.Figure{}, err
			}
			signal = h.Done() != nil
			held[i], watches[i] = h, watchOver(h, d.kit.TTL)
		}
		type moment struct{ before, after evidence.Instant }
		moments := make([]moment, len(keys))
		var mu sync.Mutex
		if err := d.do(s.Context(), r, d.kit.Addrs[0], keys, func(key int, before, after evidence.Instant) {
			mu.Lock()
			defer mu.Unlock()
			moments[key] = moment{before, after}
		}); err != nil {
			return evidence.Figure{}, err
		}
		enough := time.Now().Add(d.wait)
		for i, w := range watches {
			at, ok := w.wait(time.Until(enough))
			held[i].Unlock(s.Context()) //nolint:errcheck // it is lost
			m := moments[i]
			switch {
			case m.before == 0 || ok && at < m.before:
				continue // the lease was lost before that, on a machine that was too slow
			case !ok:
				b.Unheard++
			default:
				trip := m.after.Sub(m.before)
				samples = append(samples, evidence.Sample{Took: at.Sub(m.before) - trip, Noise: noise.Between(m.before, at)})
			}
			q.Done++
		}
	}
	f := b.Figure(d.kit.String()+", "+d.name, samples)
	if !signal {
		f.Worst = fmt.Sprintf("no signal; the caller's own loop: %s", f.Worst)
		f.Held, f.NotJudged = 0, true
	}
	return f, nil
}

// A watch waits for the loss of a hold.
type watch struct {
	lost chan evidence.Instant // gets one value, if the hold is lost
	stop chan struct{}
}

// watchOver notes when h is lost: by its signal or, if the library has none, by a loop around Extend such as a caller of that
// library would write.
func watchOver(h peers.Slot, ttl time.Duration) *watch {
	w := &watch{lost: make(chan evidence.Instant, 1), stop: make(chan struct{})}
	done, ticker := h.Done(), time.NewTicker(ttl/3)
	if done != nil {
		ticker.Stop()
	}
	go func() {
		defer ticker.Stop()
		for lost := false; !lost; {
			select {
			case <-done:
				lost = true
			case <-ticker.C:
				lost = h.Extend(context.Background(), ttl) != nil
			case <-w.stop:
				return
			}
		}
		w.lost <- evidence.Now()
	}()
	return w
}

// wait returns when the hold was lost, and stops watching.
func (w *watch) wait(d time.Duration) (at evidence.Instant, ok bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case at = <-w.lost:
		ok = true
	case <-timer.C:
	}
	close(w.stop)
	return at, ok
}

// remove deletes each key at a moment of its own.
func remove(ctx context.Context, r *rand.Rand, addr string, keys []string, gone func(int, evidence.Instant, evidence.Instant)) error {
	errs := make([]error, len(keys))
	var group sync.WaitGroup
	for i, key := range keys {
		after := evidence.Between(r, 0, deletedTTL*2/3)
		group.Go(func() {
			c, err := redis.DialContext(ctx, "tcp", addr)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.Close()
			evidence.Sleep(ctx, after)
			before := evidence.Now()
			n, err := redis.Int(c.Do("DEL", key))
			errs[i] = err
			if n == 1 {
				gone(i, before, evidence.Now())
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// filling writes some ballast, and says which of KEYS still exist.
var filling = redis.NewScript(-1, `for i = 1, 10 do redis.call('SET', ARGV[1] .. i, ARGV[2]) end
	local there = {}
	for i, key in ipairs(KEYS) do there[i] = redis.call('EXISTS', key) end
	return there`)

// evict fills the server until it has evicted all keys.
func evict(ctx context.Context, r *rand.Rand, addr string, keys []string, gone func(int, evidence.Instant, evidence.Instant)) error {
	c, err := redis.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	evidence.Sleep(ctx, evidence.Between(r, 0, deletedTTL/3))
	ballast := strings.Repeat("x", 8<<10)
	left := len(keys)
	away := make([]bool, len(keys))
	for before := evidence.Now(); left > 0 && ctx.Err() == nil; {
		asked := evidence.Now()
		there, err := redis.Ints(filling.Do(c, redis.Args{len(keys)}.AddFlat(keys).Add(fmt.Sprintf("ballast-%d-", r.Int64()), ballast)...))
		if err != nil {
			return err
		}
		for i := range keys {
			if there[i] == 0 && !away[i] {
				away[i] = true
				left--
				gone(i, before, evidence.Now())
			}
		}
		before = asked
	}
	return ctx.Err()
}
