//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/examples/internal/crew"
)

const (
	ttl = time.Second
	// A crowded machine is not a broken server.
	nodeTimeout = 300 * time.Millisecond
	pace        = 20 * time.Millisecond // between two writes of a leader
)

// A job is what a candidate has to know.
type job struct{ URL, Key, Name string }

// resign is the only order that a candidate gets.
type resign struct{}

// An event is what a candidate tells.
type event struct {
	What  string
	Fence int64
	Why   string
}

const (
	elected  = "elected"
	write    = "write" // to the ledger, which compares the fence
	resigned = "resigned"
	lost     = "lost"
)

// campaign is the main function of a candidate: it waits until it leads, leads until that ends, and
// then waits again.
func campaign(j job, boss *crew.Boss[resign]) error {
	pool, err := redimutex.NewPool(j.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	mutex := redimutex.New(pool, j.Key, redimutex.WithFencing(), redimutex.WithOwner(j.Name),
		redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(nodeTimeout))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	resignations := make(chan resign)
	go func() {
		defer cancel() // the boss has gone
		for o := range boss.Orders {
			select {
			case resignations <- o:
			case <-time.After(ttl): // does not lead, and so can't resign
			}
		}
	}()
	for {
		if err := mutex.LockContext(ctx, 0); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("can't be a candidate: %w", err)
		}
		lease := mutex.Lease()
		boss.Tell(event{What: elected, Fence: lease.Fence()})
		lead(lease.Context(ctx), lease, boss, resignations)
		err := mutex.UnlockContext(ctx)
		if errors.Is(err, redimutex.ErrLost) {
			boss.Tell(event{What: lost, Fence: lease.Fence(), Why: err.Error()})
		} else {
			boss.Tell(event{What: resigned, Fence: lease.Fence()})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(ttl): // give others a chance
		}
	}
}

// lead writes until ctx ends, which it does when the lease is lost, or until it has to resign.
func lead(ctx context.Context, lease *redimutex.Lease, boss *crew.Boss[resign], resignations <-chan resign) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			// After a pause both this and the end of ctx may be due. The write is then on its way before
			// anybody has looked, and the ledger has to refuse it.
			boss.Tell(event{What: write, Fence: lease.Fence()})
		case <-resignations:
			return
		case <-ctx.Done():
			return
		}
	}
}
