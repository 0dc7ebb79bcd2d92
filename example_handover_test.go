package redimutex_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redimutex/redimutex"
)

// A web request locks the order and hands the lock over to a worker, in the job that it puts into a queue. Nothing else
// gets the lock in between.
func ExampleLease_HandOver() {
	type job struct {
		Order string
		Lock  redimutex.Handover // secret: the process that has it can take the lock
	}
	request := func(ctx context.Context, client *redimutex.Client, enqueue func([]byte)) error {
		lease, err := client.Mutex("order:7").TryAcquire(ctx)
		if err != nil {
			return err
		}
		defer lease.Release(ctx) // does nothing after HandOver
		lock, err := lease.HandOver(ctx, time.Minute)
		if err != nil {
			return err
		}
		text, err := json.Marshal(job{"order:7", lock})
		if err != nil {
			return err
		}
		enqueue(text)
		return nil
	}
	work := func(ctx context.Context, client *redimutex.Client, text []byte) error {
		var j job
		if err := json.Unmarshal(text, &j); err != nil {
			return err
		}
		mu := client.Mutex(j.Order)
		if err := mu.TakeOver(ctx, j.Lock); err != nil {
			return err // ErrLost: a minute has passed, or another worker has it
		}
		defer mu.Unlock()
		fmt.Println("locked by the worker:", mu.Lease().Err() == nil)
		return nil
	}

	ctx := context.Background()
	web := redimutex.NewClient([]redimutex.Pool{redisPool()}, redimutex.WithFencing())
	var queue [][]byte
	if err := request(ctx, web, func(text []byte) { queue = append(queue, text) }); err != nil {
		log.Fatal(err)
	}
	if err := work(ctx, web, queue[0]); err != nil {
		log.Fatal(err)
	}
	fmt.Println("a second worker:", errors.Is(work(ctx, web, queue[0]), redimutex.ErrLost))
	// Output:
	// locked by the worker: true
	// a second worker: true
}
