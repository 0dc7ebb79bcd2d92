package redimutex_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redimutex/redimutex"
)

// A transfer between two accounts locks both, or none. Two transfers in opposite directions cannot deadlock.
func ExampleClient_MutexAll() {
	client := redimutex.NewClient([]redimutex.Pool{redisPool()})
	balance := map[string]int{"{account}:1": 100, "{account}:2": 0} // one {tag}, so that a Redis Cluster has them in one slot
	transfer := func(from, to string, amount int) error {
		both := client.MutexAll([]string{from, to})
		return both.Do(context.Background(), func(ctx context.Context) error {
			balance[from] -= amount
			balance[to] += amount
			return nil
		})
	}
	if err := transfer("{account}:1", "{account}:2", 30); err != nil {
		log.Fatal(err)
	}
	if err := transfer("{account}:2", "{account}:1", 10); err != nil {
		log.Fatal(err)
	}
	fmt.Println(balance["{account}:1"], balance["{account}:2"])
	// Output: 80 20
}
