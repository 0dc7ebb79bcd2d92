package redimutex_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex"
)

// Ten downloads run at a time in the whole fleet, on however many machines.
func ExampleSemaphore() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // to wait and to download
	defer cancel()
	client := redimutex.NewClient([]redimutex.Pool{redisPool()})
	downloads := client.Semaphore("downloads", 10)
	download := func(ctx context.Context, url string) error { return ctx.Err() } // stops when ctx ends

	var all sync.WaitGroup
	var done atomic.Int64
	for i := range 25 {
		all.Go(func() {
			err := downloads.Do(ctx, func(ctx context.Context) error {
				return download(ctx, fmt.Sprintf("https://example.com/%d", i))
			})
			if err != nil {
				log.Print(err)
				return
			}
			done.Add(1)
		})
	}
	all.Wait()
	fmt.Println("done:", done.Load(), "at a time:", downloads.Permits())
	// Output: done: 25 at a time: 10
}

// The code that releases a permit need not be the code that acquired it.
func ExampleSemaphore_Acquire() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // bounds the wait
	defer cancel()
	licences := redimutex.NewSemaphore(redisPool(), "licences", 3)
	permit, err := licences.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	inUse, err := licences.InUse(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("in use:", inUse)
	fmt.Println("released:", permit.Release(context.Background()) == nil)
	// Output:
	// in use: 1
	// released: true
}
