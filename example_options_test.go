package redimutex_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
)

// Work without a context of its own can watch the lease.
func ExampleLease_Done() {
	mu := redimutex.New(redisPool(), "invoices", redimutex.WithTTL(time.Second), redimutex.WithoutRenewal())
	mu.Lock()
	lease := mu.Lease()
	<-lease.Done() // no process renews it
	fmt.Println(lease.Err())

	var lost *redimutex.LostError
	if err := mu.UnlockContext(context.Background()); errors.As(err, &lost) {
		fmt.Println("reason:", lost.Reason)
	}
	// Output:
	// redimutex: "invoices": lease lost: expired
	// reason: expired
}

// The context of a hold ends with the hold, and its cause says why.
func ExampleLease_Context() {
	mu := redimutex.New(redisPool(), "invoices")
	mu.Lock()
	ctx := mu.Lease().Context(context.Background())
	fmt.Println(ctx.Err())
	mu.Unlock()
	fmt.Println(errors.Is(context.Cause(ctx), redimutex.ErrUnlocked))
	// Output:
	// <nil>
	// true
}

// Before a step that can't be interrupted, extend the lease for as long as the step may take.
func ExampleLease_Extend() {
	mu := redimutex.New(redisPool(), "invoices", redimutex.WithoutRenewal())
	mu.Lock()
	defer mu.Unlock()
	lease := mu.Lease()
	if err := lease.Extend(context.Background(), time.Minute); err != nil {
		fmt.Println("don't begin:", err)
		return
	}
	fmt.Println(time.Until(lease.Until()) > 50*time.Second)
	// Output: true
}

// Every write carries the fence. The resource refuses a write whose fence is lower than one that it has seen.
func ExampleLease_Fence() {
	mu := redimutex.New(redisPool(), "invoices", redimutex.WithFencing())
	highest := int64(0) // kept by the resource, in the same transaction as the data
	write := func(fence int64) bool {
		if fence < highest {
			return false
		}
		highest = fence
		return true
	}

	mu.Lock()
	paused := mu.Lease().Fence() // this holder is paused for longer than its lease
	mu.Unlock()
	mu.Lock()
	fmt.Println("the new holder writes:", write(mu.Lease().Fence()))
	mu.Unlock()
	fmt.Println("the paused one writes:", write(paused))
	// Output:
	// the new holder writes: true
	// the paused one writes: false
}

// The lock of a crashed holder ends after two minutes, not after ten seconds.
func ExampleWithTTL() {
	mu := redimutex.New(redisPool(), "invoices", redimutex.WithTTL(2*time.Minute))
	mu.Lock()
	defer mu.Unlock()
	fmt.Println(time.Until(mu.Lease().Until()) > time.Minute)
	// Output: true
}

// Ten tries. Each pause is 100 ms longer than the one before: 4.5 s in all.
func ExampleWithBackoff() {
	mu := redimutex.New(redisPool(), "invoices",
		redimutex.WithBackoff(redimutex.Linear(100*time.Millisecond)),
		redimutex.WithMaxAttempts(10))
	if err := mu.LockContext(context.Background(), 0); errors.Is(err, redimutex.ErrLocked) {
		fmt.Println("still locked")
		return
	}
	defer mu.Unlock()
	fmt.Println("locked")
	// Output: locked
}

func ExampleJittered() {
	// 10, 20, 40 ms and so on up to a second, each up to a half more or less.
	wait := redimutex.Jittered(redimutex.Exponential(10*time.Millisecond, time.Second))
	d := wait(3)
	fmt.Println(20*time.Millisecond <= d && d <= 60*time.Millisecond)
	// Output: true
}

func ExampleWithMaxAttempts() {
	pool := redisPool()
	other := redimutex.New(pool, "invoices")
	other.Lock()
	defer other.Unlock()

	mu := redimutex.New(pool, "invoices", redimutex.WithMaxAttempts(2), redimutex.WithPollInterval(10*time.Millisecond))
	fmt.Println(errors.Is(mu.LockContext(context.Background(), 0), redimutex.ErrLocked))
	// Output: true
}

// The key stays locked for a minute, however soon it is unlocked. A second start of the job in that minute finds it locked.
func ExampleWithMinHold() {
	mu := redimutex.New(redisPool(), "jobs:nightly", redimutex.WithMinHold(time.Minute))
	mu.Lock()
	mu.Unlock() // the job was quick
	fmt.Println(mu.TryLock())
	// Output: false
}

// A holder that hangs, in a process that goes on, does not keep the lock for ever.
func ExampleWithMaxHold() {
	mu := redimutex.New(redisPool(), "invoices",
		redimutex.WithTTL(time.Second), redimutex.WithMaxHold(500*time.Millisecond))
	err := mu.Do(context.Background(), func(ctx context.Context) error {
		<-ctx.Done() // hangs
		return nil
	})
	fmt.Println(errors.Is(err, redimutex.ErrLost))
	// Output: true
}

// The lease ends after its TTL, whether the work is done or not, as with a bare SET NX PX.
func ExampleWithoutRenewal() {
	mu := redimutex.New(redisPool(), "invoices", redimutex.WithTTL(time.Second), redimutex.WithoutRenewal())
	mu.Lock()
	<-mu.Lease().Done()
	fmt.Println(errors.Is(mu.UnlockContext(context.Background()), redimutex.ErrLost))
	// Output: true
}

// The label is visible to an operator who looks at the key, and to those who wait.
func ExampleWithOwner() {
	pool := redisPool()
	holder := redimutex.New(pool, "invoices", redimutex.WithOwner("web-7 pid 4711"))
	holder.Lock()
	defer holder.Unlock()

	var locked *redimutex.LockedError
	err := redimutex.New(pool, "invoices").TryLockContext(context.Background())
	if errors.As(err, &locked) {
		fmt.Println(locked.Owner)
	}
	// Output: web-7 pid 4711
}

func ExampleWithTrace() {
	mu := redimutex.New(redisPool(), "invoices", redimutex.WithTrace(&redimutex.Trace{
		Acquired: func(e redimutex.Event) { fmt.Println("acquired", e.Key, "at try", e.Attempt) },
		Released: func(e redimutex.Event) { fmt.Println("released", e.Key, "after a while:", e.Held > 0) },
	}))
	mu.Lock()
	defer mu.Unlock()
	// Output:
	// acquired invoices at try 1
	// released invoices after a while: true
}

// The logger gets the errors that no return value can carry.
func ExampleWithLogger() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	mu := redimutex.New(redisPool(), "invoices", redimutex.WithLogger(logger),
		redimutex.WithTTL(time.Second), redimutex.WithoutRenewal(), redimutex.WithNodeTimeout(900*time.Millisecond))
	mu.Lock()
	<-mu.Lease().Done()
	mu.Unlock()
	// Output: level=WARN msg="redimutex: Unlock" key=invoices err="redimutex: \"invoices\": lease lost: expired"
}

// The release hands the lock to the process that has waited longest, and wakes that process.
func ExampleWithQueue() {
	pool := redisPool()
	client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithQueue())
	other := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithQueue()) // in another process, say
	defer client.Close()
	defer other.Close()

	mu := client.Mutex("invoices")
	mu.Lock()
	done := make(chan bool)
	go func() {
		defer close(done)
		mu := other.Mutex("invoices")
		mu.Lock() // does not poll
		fmt.Println("handed over")
		mu.Unlock()
	}()
	mu.Unlock()
	<-done
	// Output: handed over
}

// With this option, a function that holds the lock can call another that locks the same key.
func ExampleWithReentrancy() {
	mu := redimutex.New(redisPool(), "invoices", redimutex.WithReentrancy())
	book := func(ctx context.Context) error {
		return mu.Do(ctx, func(context.Context) error {
			fmt.Println("booked, inside the same hold")
			return nil
		})
	}
	err := mu.Do(context.Background(), func(ctx context.Context) error { return book(ctx) })
	fmt.Println(err)
	// Output:
	// booked, inside the same hold
	// <nil>
}

// A server without replicas can't confirm that a replica has the lock.
func ExampleWithReplicas() {
	mu := redimutex.New(redisPool(), "invoices", redimutex.WithReplicas(1, 10*time.Millisecond))
	err := mu.TryLockContext(context.Background())
	fmt.Println(errors.Is(err, redimutex.ErrUnavailable))
	// Output: true
}

// A server that has just started without data does not vote for one TTL.
func ExampleWithRestartGuard() {
	pools := []redimutex.Pool{redisPool(), redisPool(), redisPool()}
	mu := redimutex.NewRedlock(pools, "invoices", redimutex.WithRestartGuard(), redimutex.WithTTL(2*time.Second))
	fmt.Println("at once:", mu.TryLock())
	mu.Lock() // waits until they vote
	defer mu.Unlock()
	fmt.Println("a TTL later: true")
	// Output:
	// at once: false
	// a TTL later: true
}

// Many goroutines share two connections.
func ExampleWithMultiplexing() {
	client := redimutex.NewClient([]redimutex.Pool{redisPool()}, redimutex.WithMultiplexing(2))
	defer client.Close()

	var group sync.WaitGroup
	var paid atomic.Int64
	for invoice := range 100 {
		group.Go(func() {
			mu := client.Mutex(fmt.Sprintf("invoice:%d", invoice))
			mu.Lock()
			defer mu.Unlock()
			paid.Add(1)
		})
	}
	group.Wait()
	fmt.Println("paid:", paid.Load())
	// Output: paid: 100
}

// The password changes, so each new connection asks for it.
func ExampleNewPoolAt() {
	pool := redimutex.NewPoolAt("tcp", "redis.example:6379",
		redis.DialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			if _, err := redis.NewConn(c, 5*time.Second, 5*time.Second).Do("AUTH", "locks", passwordOfToday()); err != nil {
				c.Close()
				return nil, err
			}
			return c, c.SetDeadline(time.Time{})
		}))
	defer pool.Close()
	mu := redimutex.New(pool, "invoices")
	fmt.Println(mu.Key())
	// Output: invoices
}

func passwordOfToday() string { return os.Getenv("REDIS_PASSWORD") }
