//go:build unix

package main

import (
	"context"
	"errors"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/examples/internal/crew"
)

const (
	ttl = time.Second
	// Generous: a busy machine is not a broken server.
	nodeTimeout = 300 * time.Millisecond
	pace        = 20 * time.Millisecond // between two writes of a leader
)

// A job is what a candidate must know.
type job struct{ URL, Key, Name string }

// resign is the only order that a candidate gets.
type resign struct{}

// An event is what a candidate reports.
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

// campaign is the main function of a candidate: it waits until it leads, leads until that ends, and then waits again.
func campaign(j job, boss *crew.Boss[resign]) error {
	pool, err := redimutex.NewPool(j.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(nodeTimeout))
	defer client.Close()
	e := election.New(client, j.Key, j.Name)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel() // the boss has gone
		for range boss.Orders {
			e.Resign()
		}
	}()
	err = e.Run(ctx, func(ctx context.Context) error {
		lead(ctx, boss)
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lead writes until ctx ends, because the lease is lost or the candidate has to resign.
func lead(ctx context.Context, boss *crew.Boss[resign]) {
	term := election.Term(ctx)
	boss.Tell(event{What: elected, Fence: term})
	for {
		time.Sleep(pace)
		// After a pause the lease may be over. This write is sent before the candidate can notice, and the ledger has to
		// refuse it.
		boss.Tell(event{What: write, Fence: term})
		if ctx.Err() == nil {
			continue
		}
		if cause := context.Cause(ctx); errors.Is(cause, redimutex.ErrLost) {
			boss.Tell(event{What: lost, Fence: term, Why: cause.Error()})
		} else {
			boss.Tell(event{What: resigned, Fence: term})
		}
		return
	}
}
