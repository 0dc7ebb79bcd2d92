// Command hotkey shows what happens when a much wanted value has just left the cache: four servers with 50 requests each ask
// for it at once, three times over. Without a lock every request goes to the database. With package cacheaside one request
// does, and the others wait for its result.
//
// The servers are Clients with their own connections, so to Redis they are different processes. Run it, without anything
// installed, by
//
//	go run ./hotkey
//
// or with REDIS_URL set to use a Redis of yours. Look at the number of loads, which is the load of the database. The exit
// status is 1 if cacheaside needed more than one load for each time that the value was gone.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cacheaside"
	"github.com/redimutex/redimutex/examples/internal/backend"
)

const (
	servers  = 4
	requests = 50 // of each server
	times    = 3
	query    = 250 * time.Millisecond // how long the database takes
)

// key is different in each run, so that several runs can share a server.
var key = "example:hotkey:front-page:" + rand.Text()

func main() { backend.Main("hotkey", start) }

func start(ctx context.Context, out io.Writer, url string) (err error) {
	pools := make([]*redis.Pool, servers)
	for i := range pools {
		if pools[i], err = redimutex.NewPool(url); err != nil {
			return err
		}
		defer pools[i].Close()
	}
	return run(ctx, out, pools)
}

// A figure is the cost of a herd of requests.
type figure struct {
	loads   int64         // in the database
	slowest time.Duration // request
}

// run sends the herd without the lock, then with it.
func run(ctx context.Context, out io.Writer, pools []*redis.Pool) error {
	fmt.Fprintf(out, "%d servers with %d requests each want the same value, which is not in the cache. The database takes %v.\n\n", len(pools), requests, query)
	fmt.Fprintln(out, "            | time | loads | slowest request")
	var most int64
	for n := range times {
		for _, locked := range []bool{false, true} {
			f, err := herd(ctx, pools, locked)
			if err != nil {
				return err
			}
			name := "no lock"
			if locked {
				name = "cacheaside"
				most = max(most, f.loads)
			}
			fmt.Fprintf(out, "%-11s | %4d | %5d | %12d ms\n", name, n+1, f.loads, f.slowest.Milliseconds())
		}
	}
	fmt.Fprintf(out, "\nWith cacheaside the database was asked %d time, instead of %d times.\n", most, len(pools)*requests)
	if most != 1 {
		return errors.New("cacheaside asked the database more than once for the same value")
	}
	return nil
}

// herd makes all servers ask for the value at once.
func herd(ctx context.Context, pools []*redis.Pool, locked bool) (f figure, err error) {
	if err := forget(ctx, pools[0]); err != nil {
		return f, err
	}
	var loads, slowest atomic.Int64
	load := func(ctx context.Context) (string, error) {
		loads.Add(1)
		select {
		case <-time.After(query):
			return "the front page", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	errs := make(chan error, len(pools)*requests)
	var all sync.WaitGroup
	for _, pool := range pools {
		store := cacheaside.NewRedisStore(pool, time.Minute)
		client := redimutex.NewClient([]redimutex.Pool{pool})
		defer client.Close()
		cache := cacheaside.New(client, store)
		for range requests {
			all.Go(func() {
				began := time.Now()
				var err error
				if locked {
					_, err = cacheaside.Fetch(ctx, cache, key, load)
				} else {
					err = unlocked(ctx, store, load)
				}
				errs <- err
				for took := int64(time.Since(began)); ; {
					if was := slowest.Load(); took <= was || slowest.CompareAndSwap(was, took) {
						break
					}
				}
			})
		}
	}
	all.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	return figure{loads.Load(), time.Duration(slowest.Load())}, err
}

// unlocked reads through a cache in the way that is often seen.
func unlocked(ctx context.Context, store cacheaside.Store, load func(ctx context.Context) (string, error)) error {
	cached, err := store.Get(ctx, key)
	if cached != nil || err != nil {
		return err
	}
	value, err := load(ctx)
	if err != nil {
		return err
	}
	return store.Set(ctx, key, []byte(value))
}

// forget empties the cache.
func forget(ctx context.Context, pool *redis.Pool) error {
	c, err := pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = redis.DoContext(c, ctx, "DEL", key)
	return err
}
