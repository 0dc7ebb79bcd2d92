package redimutex_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redimutex/redimutex"
)

// A job takes the lock when it begins, and releases it in another function, where the job ends.
func ExampleMutex_Acquire() {
	client := redimutex.NewClient([]redimutex.Pool{redisPool()})
	type job struct{ lease *redimutex.Lease }
	begin := func(ctx context.Context, name string) (*job, error) {
		lease, err := client.Mutex(name).Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return &job{lease}, nil
	}
	end := func(ctx context.Context, j *job) error { return j.lease.Release(ctx) }

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // bounds the wait
	defer cancel()
	j, err := begin(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("locked:", j.lease.Err() == nil)
	fmt.Println("released:", end(ctx, j) == nil)
	// Output:
	// locked: true
	// released: true
}

func ExampleMutex_TryAcquire() {
	client := redimutex.NewClient([]redimutex.Pool{redisPool()})
	lease, err := client.Mutex("invoices").TryAcquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Mutex("invoices").TryAcquire(context.Background())
	fmt.Println("the second:", errors.Is(err, redimutex.ErrLocked))
	fmt.Println("released:", lease.Release(context.Background()) == nil)
	// Output:
	// the second: true
	// released: true
}

// A Lease ends its own hold and no later one, so it may be released twice.
func ExampleLease_Release() {
	ctx := context.Background()
	mu := redimutex.New(redisPool(), "invoices")
	first, err := mu.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Release(ctx))

	second, err := mu.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Release(ctx))
	fmt.Println("the second goes on:", second.Err() == nil)
	fmt.Println(second.Release(ctx))
	// Output:
	// <nil>
	// redimutex: "invoices": Release: not locked
	// the second goes on: true
	// <nil>
}

// A function deep inside Do takes the fence of the hold from its ctx.
func ExampleLeaseFrom() {
	write := func(ctx context.Context) error {
		lease := redimutex.LeaseFrom(ctx)
		if lease == nil {
			return errors.New("write needs the lock: call it inside Do")
		}
		fmt.Println("with a fence:", lease.Fence() > 0)
		return nil
	}
	mu := redimutex.New(redisPool(), "invoices", redimutex.WithFencing())
	if err := mu.Do(context.Background(), write); err != nil {
		log.Fatal(err)
	}
	fmt.Println(write(context.Background()))
	// Output:
	// with a fence: true
	// write needs the lock: call it inside Do
}
