// Command transfer moves money between accounts from several machines at once, in both directions. A transfer reads two
// balances and writes two, so it locks both accounts: as one lock, by MutexAll, which has all of its keys or none. One
// lock after the other would deadlock as soon as two transfers meet.
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

// accounts have a {tag} in common, so that a Redis Cluster has them in one slot.
var accounts = []string{"example:transfer:{bank}:a", "example:transfer:{bank}:b", "example:transfer:{bank}:c"}

// lockOf is the key of an account's lock.
func lockOf(account string) string { return account + ":lock" }

func main() { backend.Main("transfer", backend.WithPool(run)) }

// run makes all transfers without locks and with them.
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
		if err := write(pool, a, opening); err != nil {
			return 0, err
		}
	}
	failures := make([]error, machines)
	var all sync.WaitGroup
	for m := range machines {
		all.Go(func() {
			client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithPollInterval(2*time.Millisecond))
			defer client.Close()
			for i := range transfers {
				from, to := accounts[(m+i)%len(accounts)], accounts[(m+2*i+1)%len(accounts)]
				if from == to {
					continue
				}
				move := func(context.Context) error { return transfer(pool, from, to, 1+i) }
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
		balance, err := read(pool, a)
		failures = append(failures, err)
		sum += balance
	}
	return sum, errors.Join(failures...)
}

// transfer is what must not happen twice at a time on one account.
func transfer(pool *redis.Pool, from, to string, amount int) error {
	one, err := read(pool, from)
	if err != nil {
		return err
	}
	other, err := read(pool, to)
	if err != nil {
		return err
	}
	return errors.Join(write(pool, from, one-amount), write(pool, to, other+amount))
}

func read(pool *redis.Pool, account string) (int, error) {
	c := pool.Get()
	defer c.Close()
	return redis.Int(c.Do("GET", account))
}

func write(pool *redis.Pool, account string, balance int) error {
	c := pool.Get()
	defer c.Close()
	_, err := c.Do("SET", account, balance, "EX", 600)
	return err
}
