package redimutex_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redimutex/redimutex"
)

// Many goroutines read the prices at a time, and one alone sets them.
func ExampleRWMutex() {
	ctx := context.Background()
	client := redimutex.NewClient([]redimutex.Pool{redisPool()})
	prices := client.RWMutex("prices")
	err := prices.RDo(ctx, func(context.Context) error {
		fmt.Println("another reads too:", prices.TryRLock())
		fmt.Println("another writes:", prices.TryLock())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	prices.RUnlock() // of TryRLock
	err = prices.Do(ctx, func(context.Context) error {
		fmt.Println("another reads while one writes:", prices.TryRLock())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// another reads too: true
	// another writes: false
	// another reads while one writes: false
}

// A writer becomes a reader, and lets the other readers in. No other writer gets in between.
func ExampleLease_Downgrade() {
	ctx := context.Background()
	prices := redimutex.NewRWMutex(redisPool(), "prices")
	lease, err := prices.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// Write the prices here.
	fmt.Println("readers wait:", !prices.TryRLock())
	if err := lease.Downgrade(ctx); err != nil {
		log.Fatal(err)
	}
	// Read them here.
	fmt.Println("readers come in:", prices.TryRLock())
	fmt.Println("a writer:", prices.TryLock())
	fmt.Println(lease.Release(ctx))
	prices.RUnlock()
	// Output:
	// readers wait: true
	// readers come in: true
	// a writer: false
	// <nil>
}
