package election_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/election"
)

// embedded returns a Client of an empty embedded server, so that the examples run where no Redis is.
func embedded() (client *redimutex.Client, end func()) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		panic(err)
	}
	m.ClockTTL(true)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.Addr()) }}
	client = redimutex.NewClient([]redimutex.Pool{pool})
	return client, func() {
		client.Close()
		pool.Close()
		m.Close()
	}
}

func ExampleElection_Run() {
	client, end := embedded() // or redimutex.NewClient([]redimutex.Pool{pool})
	defer end()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e := election.New(client, "billing", "machine-1")
	err := e.Run(ctx, func(ctx context.Context) error {
		fmt.Println("leading:", e.IsLeader())
		return errors.New("the work is done, for good") // nil would mean: stand again
	})
	fmt.Println(err)
	fmt.Println("leading:", e.IsLeader())
	// Output:
	// leading: true
	// the work is done, for good
	// leading: false
}

func ExampleElection_Observe() {
	client, end := embedded()
	defer end()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	over := make(chan error)
	e := election.New(client, "billing", "machine-1", redimutex.WithTTL(time.Second))
	go func() {
		over <- e.Run(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
	}()

	observer := election.New(client, "billing", "")
	for leader := range observer.Observe(ctx) {
		if leader.Term != 0 { // otherwise no candidate leads
			fmt.Println(leader.Owner, "leads")
			break
		}
	}
	cancel()
	fmt.Println(<-over)
	// Output:
	// machine-1 leads
	// context canceled
}

// A resource that refuses lower terms accepts no write from a former leader.
func ExampleTerm() {
	client, end := embedded()
	defer end()

	var highest int64 // in the resource
	write := func(term int64) error {
		if term < highest {
			return errors.New("refused: a later leader has written")
		}
		highest = term
		return nil
	}
	done := errors.New("done")
	e := election.New(client, "billing", "machine-1")
	for range 2 {
		err := e.Run(context.Background(), func(ctx context.Context) error {
			first := highest
			if err := write(election.Term(ctx)); err != nil {
				return err
			}
			fmt.Println("higher than before:", highest > first)
			return done
		})
		fmt.Println(err)
	}
	fmt.Println(write(highest - 1))
	// Output:
	// higher than before: true
	// done
	// higher than before: true
	// done
	// refused: a later leader has written
}

// A machine that is about to be restarted gives the lead to the next one in line.
func ExampleElection_Resign() {
	client, end := embedded()
	defer end()

	ctx, cancel := context.WithCancel(context.Background())
	e := election.New(client, "billing", "machine-1")
	terms := 0
	err := e.Run(ctx, func(ctx context.Context) error {
		if terms++; terms == 2 {
			cancel() // leaves the election
			return context.Cause(ctx)
		}
		e.Resign() // mostly called from elsewhere
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
		return ctx.Err()
	})
	fmt.Println(terms, "terms:", err)
	// Output:
	// election: resigned
	// 2 terms: context canceled
}
