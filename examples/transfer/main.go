// Command transfer moves money between accounts from several machines at once, in both directions. A transfer reads two
// balances and writes two, so it locks both accounts as one lock, by MutexAll, which has either all of its keys or none. With
// one lock after the other, two transfers would deadlock as soon as they meet.
//
// The locks keep apart machines that are running. A machine that was paused for longer than its lease is refused by the
// accounts, which compare its fence. A transfer is written in one step, so a crash leaves no half of it.
//
// The machines are goroutines with a Client each, and the balances are in the same Redis. Run it, without anything
// installed, by
//
//	go run ./transfer
//
// or with REDIS_URL set to use a Redis of yours. Look at the sum of all balances. The exit status is 1 if it has changed
// in spite of the locks.
package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/examples/internal/backend"
)

const (
	machines  = 4
	transfers = 25 // of each machine
	opening   = 1000
)

// accounts share a {tag}, so that a Redis Cluster has them in one slot. The tag is different in each run, so that several runs
// can share a server.
var accounts = []string{tag + ":a", tag + ":b", tag + ":c"}

var tag = "example:transfer:{" + rand.Text() + "}"

//go:embed enter.lua
var enterSource string

//go:embed settle.lua
var settleSource string

var enter, settle = redis.NewScript(2, enterSource), redis.NewScript(2, settleSource)

// lockOf returns the key of an account's lock.
func lockOf(account string) string { return account + ":lock" }

func main() { backend.Main("transfer", backend.WithPool(run)) }

// run makes all transfers without locks, then with them.
func run(ctx context.Context, out io.Writer, pool *redis.Pool) error {
	fmt.Fprintf(out, "%d machines make %d transfers each between %d accounts of %d.\n", machines, transfers, len(accounts), opening)
	for _, locked := range []bool{false, true} {
		sum, err := bank(ctx, pool, locked)
		if err != nil {
			return err
		}
		words := "without locks "
		if locked {
			words = "with MutexAll "
		}
		fmt.Fprintf(out, "  %s the sum is %d, and was %d\n", words, sum, opening*len(accounts))
		if locked && sum != opening*len(accounts) {
			return errors.New("the sum of the balances has changed, although the accounts were locked")
		}
	}
	return nil
}

// bank returns the sum of all balances after the transfers.
func bank(ctx context.Context, pool *redis.Pool, locked bool) (sum int, err error) {
	for _, a := range accounts {
		if err := open(ctx, pool, a); err != nil {
			return 0, err
		}
	}
	failures := make([]error, machines)
	var all sync.WaitGroup
	for m := range machines {
		all.Go(func() {
			client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithPollInterval(2*time.Millisecond), redimutex.WithFencing())
			defer client.Close()
			for i := range transfers {
				from, to := accounts[(m+i)%len(accounts)], accounts[(m+i+1+i%2)%len(accounts)]
				move := func(ctx context.Context) error { return transfer(ctx, pool, from, to, 1+i) }
				if !locked {
					failures[m] = errors.Join(failures[m], move(ctx))
					continue
				}
				both := client.MutexAll([]string{lockOf(from), lockOf(to)}) // in whatever order
				failures[m] = errors.Join(failures[m], both.Do(ctx, move))
			}
		})
	}
	all.Wait()
	for _, a := range accounts {
		balance, err := read(ctx, pool, a)
		failures = append(failures, err)
		sum += balance
	}
	return sum, errors.Join(failures...)
}

// transfer must not run twice at a time on one account. Its ctx ends when the locks are lost.
func transfer(ctx context.Context, pool *redis.Pool, from, to string, amount int) error {
	var fence int64
	if lease := redimutex.LeaseFrom(ctx); lease != nil {
		fence = lease.Fence()
	}
	c, err := pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	balances, err := redis.Ints(enter.DoContext(ctx, c, from, to, fence))
	if err != nil {
		return err
	}
	_, err = settle.DoContext(ctx, c, from, to, fence, balances[0]-amount, balances[1]+amount)
	return err
}

func open(ctx context.Context, pool *redis.Pool, account string) error {
	c, err := pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := redis.DoContext(c, ctx, "HSET", account, "balance", opening, "fence", 0); err != nil {
		return err
	}
	_, err = redis.DoContext(c, ctx, "EXPIRE", account, 600)
	return err
}

func read(ctx context.Context, pool *redis.Pool, account string) (int, error) {
	c, err := pool.GetContext(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return redis.Int(redis.DoContext(c, ctx, "HGET", account, "balance"))
}
