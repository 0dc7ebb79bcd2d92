package cacheaside_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cacheaside"
)

// redisPool returns a pool for an empty embedded server, so that the examples run where no Redis is.
func redisPool() *redis.Pool {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return &redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", "embedded", redis.DialNetDial(func(string, string) (net.Conn, error) { return m.Dial() }))
	}}
}

func ExampleFetch() {
	type User struct{ Name string }
	queryUser := func(context.Context, int) (User, error) {
		fmt.Println("asking the database")
		return User{Name: "Ada"}, nil
	}

	pool := redisPool() // or yours
	client := redimutex.NewClient([]redimutex.Pool{pool})
	defer client.Close()
	cache := cacheaside.New(client, cacheaside.NewRedisStore(pool, 10*time.Second))

	for range 3 {
		user, err := cacheaside.Fetch(context.Background(), cache, "user:42", func(ctx context.Context) (User, error) {
			return queryUser(ctx, 42)
		})
		fmt.Println(user.Name, err)
	}
	// Output:
	// asking the database
	// Ada <nil>
	// Ada <nil>
	// Ada <nil>
}

// A page that has to answer soon gives up after 3 tries, 100 ms apart, while another holds the lock.
func ExampleWithMaxTries() {
	pool := redisPool()
	client := redimutex.NewClient([]redimutex.Pool{pool})
	defer client.Close()
	cache := cacheaside.New(client, cacheaside.NewRedisStore(pool, 10*time.Second), cacheaside.WithMaxTries(3))

	slow := client.Mutex("prices:lock")
	slow.Lock()
	defer slow.Unlock()
	_, err := cacheaside.Fetch(context.Background(), cache, "prices", func(context.Context) ([]int, error) {
		return []int{1, 2, 3}, nil
	})
	fmt.Println(err)
	// Output: cacheaside: "prices": no value after 3 tries: redimutex: "prices:lock": locked by another holder
}
