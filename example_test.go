package redimutex_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
)

// redisPool returns a pool for an empty embedded server, so that the examples need no Redis. The pool closes a connection as
// soon as it is given back, so there is nothing to clean up.
func redisPool() *redis.Pool {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return &redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", "embedded", redis.DialNetDial(func(string, string) (net.Conn, error) { return m.Dial() }))
	}}
}

// exampleVariable is set in a process that runs the whole program from the README.
const exampleVariable = "REDIMUTEX_TEST_EXAMPLE"

// startRedis starts an embedded server on a port, puts its URL into REDIS_URL, and returns a function that stops it.
func startRedis() (stop func()) {
	if os.Getenv(exampleVariable) != "" { // the server is another test's
		return func() {}
	}
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		log.Fatal(err)
	}
	before, was := os.LookupEnv("REDIS_URL")
	os.Setenv("REDIS_URL", "redis://"+m.Addr())
	return func() {
		m.Close()
		os.Unsetenv("REDIS_URL")
		if was {
			os.Setenv("REDIS_URL", before)
		}
	}
}

// A whole program: it takes the lock, works, and reports what went wrong.
func Example() {
	defer startRedis()() // not in the README

	pool, err := redimutex.NewPool(os.Getenv("REDIS_URL")) // or the *redis.Pool that you have
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // to wait and to work
	defer cancel()

	mu := redimutex.New(pool, "invoices:2026-11")
	err = mu.Do(ctx, func(ctx context.Context) error {
		fmt.Println("no other process is here now")
		return nil // work here, and stop when ctx ends: then the lock is lost
	})
	switch {
	case errors.Is(err, redimutex.ErrLost):
		log.Fatal("another process may have been here at the same time: ", err)
	case errors.Is(err, redimutex.ErrUnavailable):
		log.Fatal("no answer from Redis: ", err)
	case err != nil:
		log.Fatal(err)
	}
	// Output: no other process is here now
}

// What a caller does about each kind of error.
func Example_errors() {
	pool := redisPool()
	other := redimutex.New(pool, "invoices", redimutex.WithOwner("web-7"))
	other.Lock()
	defer other.Unlock()

	mu := redimutex.New(pool, "invoices")
	err := mu.LockContext(context.Background(), 300*time.Millisecond)

	var locked *redimutex.LockedError
	var node *redimutex.NodeError
	switch {
	case errors.As(err, &locked): // matches ErrLocked as well
		fmt.Println("held by", locked.Owner)
	case errors.Is(err, redimutex.ErrUnavailable) && errors.As(err, &node):
		fmt.Println("server", node.Node, "does not answer:", node.Err)
	case errors.Is(err, redimutex.ErrClosed):
		fmt.Println("we are shutting down")
	case errors.As(err, &node):
		fmt.Println("server", node.Node, "refuses, and will again:", node.Err)
	}
	fmt.Println("time ran out:", errors.Is(err, context.DeadlineExceeded))
	// Output:
	// held by web-7
	// time ran out: true
}

// A condition variable with a Mutex as its Locker wakes goroutines of this process.
func Example_condition() {
	mu := redimutex.New(redisPool(), "stock")
	cond := sync.NewCond(mu)
	stock := 0

	go func() {
		mu.Lock()
		defer mu.Unlock()
		stock = 3
		cond.Signal()
	}()

	mu.Lock()
	defer mu.Unlock()
	for stock == 0 {
		cond.Wait() // unlocks mu while it waits
	}
	fmt.Println("in stock:", stock)
	// Output: in stock: 3
}

// NewPool does not connect. Its errors don't show the URL, because a URL may contain a password.
func ExampleNewPool() {
	pool, err := redimutex.NewPool("rediss://locks:p%40ss@redis.example:6380/2")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	_, err = redimutex.NewPool("localhost:6379")
	fmt.Println(err)
	// Output: redimutex: the Redis URL is not valid: it does not begin with redis://, rediss:// or unix://; write redis://host:6379, rediss://host:6379 or unix:///path
}

// A pool of your own, with connections that are as good as those of NewPool.
func ExampleDialer() {
	pool := &redis.Pool{
		MaxIdle:     10,
		IdleTimeout: 4 * time.Minute,
		DialContext: redimutex.Dialer("tcp", "redis.example:6379",
			redis.DialPassword(os.Getenv("REDIS_PASSWORD")),
			redis.DialReadTimeout(5*time.Second), // for the commands of other code
			redis.DialWriteTimeout(5*time.Second),
		),
	}
	defer pool.Close()
	mu := redimutex.New(pool, "invoices")
	fmt.Println(mu.Key())
	// Output: invoices
}

func ExampleNew() {
	var mu sync.Locker = redimutex.New(redisPool(), "invoices")
	mu.Lock()
	defer mu.Unlock()
	fmt.Println("locked")
	// Output: locked
}

// Three independent servers, two of which have to agree.
func ExampleNewRedlock() {
	pools := []redimutex.Pool{redisPool(), redisPool(), redisPool()}
	mu := redimutex.NewRedlock(pools, "invoices")
	mu.Lock()
	defer mu.Unlock()
	fmt.Println("a majority says it is ours")
	// Output: a majority says it is ours
}

// A program with many keys shares one Client, and closes it at the end.
func ExampleNewClient() {
	client := redimutex.NewClient([]redimutex.Pool{redisPool()}, redimutex.WithTTL(30*time.Second))
	defer client.Close()

	for _, key := range []string{"user:1", "user:2"} {
		mu := client.Mutex(key)
		mu.Lock()
		fmt.Println("locked", mu.Key())
		mu.Unlock()
	}
	// Output:
	// locked user:1
	// locked user:2
}

func ExampleClient_Stats() {
	client := redimutex.NewClient([]redimutex.Pool{redisPool()})
	defer client.Close()

	mu := client.Mutex("invoices")
	mu.Lock()
	s := client.Stats()
	fmt.Println(s.Held, "held,", s.Acquired, "acquired,", s.Released, "released")
	mu.Unlock()
	s = client.Stats()
	fmt.Println(s.Held, "held,", s.Acquired, "acquired,", s.Released, "released")
	// Output:
	// 1 held, 1 acquired, 0 released
	// 0 held, 1 acquired, 1 released
}

// Close ends the calls that wait.
func ExampleClient_Close() {
	client := redimutex.NewClient([]redimutex.Pool{redisPool()})
	client.Close()
	err := client.Mutex("invoices").LockContext(context.Background(), 0)
	fmt.Println(errors.Is(err, redimutex.ErrClosed))
	// Output: true
}

// A lock keeps out every other goroutine, of any process, that uses the same key on the same server.
func ExampleMutex_Lock() {
	mu := redimutex.New(redisPool(), "counter")
	count := 0
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			count++
		})
	}
	all.Wait()
	fmt.Println(count)
	// Output: 10
}

// Wait for a limited time.
func ExampleMutex_LockContext() {
	mu := redimutex.New(redisPool(), "invoices")
	ctx := context.Background() // of the request, say

	if err := mu.LockContext(ctx, 2*time.Second); err != nil {
		fmt.Println("not locked:", err)
		return
	}
	fmt.Println("locked")
	if err := mu.UnlockContext(ctx); errors.Is(err, redimutex.ErrLost) {
		fmt.Println("another process may have been here at the same time:", err)
	}
	// Output: locked
}

func ExampleMutex_UnlockContext() {
	mu := redimutex.New(redisPool(), "invoices")
	err := mu.UnlockContext(context.Background()) // Unlock would panic
	fmt.Println(err)
	// Output: redimutex: "invoices": Unlock of a Mutex or RWMutex value that holds nothing: not locked
}

func ExampleMutex_TryLock() {
	mu := redimutex.New(redisPool(), "invoices")
	mu.Lock()
	fmt.Println(mu.TryLock()) // as with sync.Mutex, it does not matter who holds it
	mu.Unlock()
	// Output: false
}

func ExampleMutex_TryLockContext() {
	mu := redimutex.New(redisPool(), "invoices")
	mu.Lock()
	defer mu.Unlock()
	err := mu.TryLockContext(context.Background())
	fmt.Println(errors.Is(err, redimutex.ErrLocked))
	// Output: true
}

// Do unlocks whatever f does. If the lock is lost, Do ends the context of f.
func ExampleMutex_Do() {
	mu := redimutex.New(redisPool(), "invoices")
	err := mu.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("working; lost:", ctx.Err() != nil)
		return errors.New("out of paper")
	})
	fmt.Println(err)
	// Output:
	// working; lost: false
	// out of paper
}

// Every machine starts the job at the same time, and one machine is to run it.
func ExampleMutex_TryDo() {
	pool := redisPool()
	machine := func(name string) {
		mu := redimutex.New(pool, "jobs:nightly", redimutex.WithMinHold(time.Minute))
		err := mu.TryDo(context.Background(), func(context.Context) error {
			fmt.Println(name, "runs the job")
			return nil
		})
		if errors.Is(err, redimutex.ErrLocked) {
			fmt.Println(name, "leaves it to the other")
		}
	}
	machine("a")
	machine("b") // its clock is a little behind
	// Output:
	// a runs the job
	// b leaves it to the other
}

func ExampleMutex_Lease() {
	mu := redimutex.New(redisPool(), "invoices")
	fmt.Println(mu.Lease() != nil)
	mu.Lock()
	lease := mu.Lease()
	fmt.Println(lease.Err(), time.Until(lease.Until()) > time.Second)
	mu.Unlock()
	fmt.Println(lease.Err())
	// Output:
	// false
	// <nil> true
	// redimutex: "invoices": not locked
}
