package goredis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/pools/goredis"
	"github.com/redimutex/redimutex/pools/internal/pooltest"
)

func Example() {
	addr, stop := pooltest.StartRedis()
	defer stop()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	client := redis.NewClient(&redis.Options{Addr: addr, ClientName: "billing"}) // the one that you have
	defer client.Close()
	pool, err := goredis.Pool(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	mu := redimutex.New(pool, "invoices")
	err = mu.Do(ctx, func(ctx context.Context) error {
		fmt.Println("no other process is here now")
		return nil
	})
	fmt.Println(err)
	// Output:
	// no other process is here now
	// <nil>
}
