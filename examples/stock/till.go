//go:build unix

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/examples/internal/crew"
)

// A job is what a process of tills must know.
type job struct {
	URL         string // of the Redis
	File        string // of the database
	Key         string // of the lock; none: sell without
	Statement   string // that sells
	Fenced      bool   // the statement compares the fence
	First, Last int    // buyers
	Tills       int
}

// The outcomes of a buyer, and the mishaps of a process.
const (
	sold    = "sold"
	soldOut = "sold out"
	refused = "refused" // by a condition of the statement
	late    = "late"    // the till noticed the loss of its lease, and did not write

	killed = "killed"
	paused = "paused"
)

// An event is what a process reports.
type event struct{ What string }

const (
	ttl = time.Second
	// Generous: a busy machine is not a broken server.
	nodeTimeout = 300 * time.Millisecond
	poll        = 5 * time.Millisecond
)

// A till serves one buyer after another.
type till struct {
	job
	boss  *crew.Boss[struct{}]
	shop  *shop
	mutex *redimutex.Mutex
}

// work is the main function of a process of tills.
func work(j job, boss *crew.Boss[struct{}]) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	shop, err := openShop(j.File)
	if err != nil {
		return err
	}
	defer shop.close()
	t := &till{job: j, boss: boss, shop: shop}
	if j.Key != "" {
		pool, err := redimutex.NewPool(j.URL)
		if err != nil {
			return err
		}
		defer pool.Close()
		t.mutex = redimutex.New(pool, j.Key, redimutex.WithFencing(),
			redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(nodeTimeout), redimutex.WithPollInterval(poll))
	}
	var tills sync.WaitGroup
	for n := range j.Tills {
		tills.Go(func() {
			for buyer := j.First + n; buyer <= j.Last; buyer += j.Tills {
				what, err := t.serve(ctx, buyer)
				if err != nil {
					cancel(err)
					return
				}
				boss.Tell(event{what})
			}
		})
	}
	tills.Wait()
	return context.Cause(ctx)
}

// serve serves a buyer, under the lock if there is one.
func (t *till) serve(ctx context.Context, buyer int) (what string, err error) {
	if seen, err := t.shop.look(ctx); err != nil || seen.stock <= 0 {
		return soldOut, err
	}
	if t.mutex == nil {
		return t.sell(ctx, buyer, nil)
	}
	err = t.mutex.Do(ctx, func(ctx context.Context) (err error) {
		what, err = t.sell(ctx, buyer, t.mutex.Lease())
		return err
	})
	if errors.Is(err, redimutex.ErrLost) {
		if what == "" {
			what = late
		}
		err = nil // what is written is written: the other lines of defence are for that
	}
	return what, err
}

// sell looks, thinks, and writes: only one till at a time should be in this section.
func (t *till) sell(ctx context.Context, buyer int, lease *redimutex.Lease) (string, error) {
	// A statement on its way to a database does not come back when the lease ends. With SQLite it would, which is kinder than
	// real life.
	ctx = context.WithoutCancel(ctx)
	var fence int64
	if lease != nil {
		fence = lease.Fence()
	}
	if t.Fenced {
		if ok, err := t.shop.enter(ctx, fence); !ok || err != nil {
			return refused, err
		}
	}
	seen, err := t.shop.look(ctx)
	if err != nil || seen.stock <= 0 {
		return soldOut, err
	}
	time.Sleep(time.Millisecond + rand.N(2*time.Millisecond)) // the price, the address, the payment
	if lease != nil && lease.Err() != nil {
		return late, nil
	}
	// The worst moment is after the check of the lease, and before the write.
	if err := t.mishap(ctx, seen); err != nil {
		return "", err
	}
	ok, err := t.shop.sell(ctx, t.Statement, buyer, seen, fence)
	if ok {
		return sold, nil
	}
	return refused, err
}

// mishap is where a process is killed or paused when its turn has come.
func (t *till) mishap(ctx context.Context, seen item) error {
	kind, err := t.shop.mishap(ctx, seen.stock)
	if kind == "" || err != nil {
		return err
	}
	// While this goroutine has the only connection, no other till of this process is in a transaction. A stopped process with
	// an open transaction would keep all others from writing.
	c, err := t.shop.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	t.boss.Tell(event{kind})
	signal := syscall.SIGSTOP
	if kind == killed {
		signal = syscall.SIGKILL
	}
	if err := syscall.Kill(os.Getpid(), signal); err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond) // the signal may take a moment to reach all threads
	return nil
}
