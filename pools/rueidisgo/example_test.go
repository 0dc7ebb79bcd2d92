package rueidisgo_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/pools/internal/pooltest"
	"github.com/redimutex/redimutex/pools/rueidisgo"
)

func Example() {
	addr, stop := pooltest.StartRedis()
	defer stop()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	option := rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, ClientName: "billing"}
	pool, err := rueidisgo.Pool(option)
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
