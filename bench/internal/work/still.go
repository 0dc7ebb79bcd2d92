package work

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

// waiting makes all goroutines wait for a lock that is never released, and measures what the waiting costs.
func (r *runner) waiting() (Result, error) {
	c, err := redis.Dial("tcp", r.Addrs[0])
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	for _, key := range []string{r.Key, peers.RueidisKey(r.Key)} {
		if _, err := c.Do("SET", key, "another holder", "PX", far.Milliseconds()); err != nil {
			return Result{}, err
		}
	}
	var group sync.WaitGroup
	var got atomic.Int64
	before := r.mark(true)
	for range r.Goroutines {
		pair := r.locker.Pair(r.Key, true)
		group.Go(func() {
			if pair.Lock(r.ctx) == nil {
				got.Add(1)
				pair.Unlock(context.Background()) //nolint:errcheck // reported below
			}
		})
	}
	time.Sleep(r.Warm)
	settled := r.mark(true)
	time.Sleep(r.Run)
	result := between(settled, r.mark(false))
	result.Goroutines = settled.goroutines - before.goroutines - r.Goroutines
	result.Bytes = settled.bytes - before.bytes
	r.cancel()
	group.Wait()
	if n := got.Load(); n > 0 {
		return Result{}, fmt.Errorf("%d goroutines got a lock that another process had", n)
	}
	return result, nil
}

// held takes and keeps the lock of each goroutine. It measures what a held lock costs, without the Pair that locks it.
func (r *runner) held() (Result, error) {
	pairs := make([]entrants.Pair, r.Goroutines)
	for g := range pairs {
		pairs[g] = r.pair(g)
	}
	warm := func(i int) error { // the cost of a held lock does not include the connections
		return errors.Join(pairs[i].Lock(r.ctx), pairs[i].Unlock(context.Background()))
	}
	if err := r.inParallel(min(r.Goroutines, 1000), warm); err != nil {
		return Result{}, err
	}
	before := r.mark(true)
	if err := r.inParallel(r.Goroutines, func(i int) error { return pairs[i].Lock(r.ctx) }); err != nil {
		return Result{}, err
	}
	time.Sleep(r.Warm)
	from := r.mark(true)
	goroutines := from.goroutines
	for end := from.at.Add(r.Run); time.Now().Before(end); {
		time.Sleep(min(100*time.Millisecond, time.Until(end)))
		goroutines = max(goroutines, runtime.NumGoroutine())
	}
	result := between(from, r.mark(false))
	result.Goroutines = goroutines - r.before.goroutines
	result.Bytes = from.bytes - before.bytes
	return result, r.inParallel(r.Goroutines, func(i int) error { return pairs[i].Unlock(context.Background()) })
}

// inParallel calls f for each number below n, a few at a time.
func (r *runner) inParallel(n int, f func(i int) error) error {
	const atATime = 64
	var group sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, atATime)
	for g := range atATime {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[g] == nil; i = int(next.Add(1)) - 1 {
				errs[g] = f(i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
