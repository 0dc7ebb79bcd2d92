// Package kinds_test tests what RWMutex and Semaphore promise between processes: phases, order, fairness, and what a dead
// process costs.
package kinds_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// If roleVariable is set, the test binary is a worker process. The value has the role, the address and the TTL.
const roleVariable = "REDIMUTEX_TEST_WORKER"

func TestMain(m *testing.M) { redistest.Main(m, redistest.Role{Variable: roleVariable, Run: work}) }

var (
	newClient = locktest.Client
	newMutex  = locktest.Mutex
)

func startWorker(t *testing.T, role string, s *redistest.Server, ttl time.Duration, queue bool) *redistest.Worker {
	t.Helper()
	return redistest.StartWorker(t, roleVariable, fmt.Sprintf("%s %s %s %t", role, s.Addr(), ttl, queue))
}

// work is the main function of a worker process. It locks as its role says, reports that, and unlocks when it gets a line.
func work(what string) int {
	fields := strings.Fields(what)
	ttl, err := time.ParseDuration(fields[2])
	if err != nil {
		panic(err)
	}
	pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", fields[1]) }}
	opts := []redimutex.Option{redimutex.WithTTL(ttl), redimutex.WithPollInterval(5 * time.Millisecond)}
	if fields[3] == "true" {
		opts = append(opts, redimutex.WithQueue())
	}
	m := redimutex.NewRWMutex(pool, "k", opts...)
	told := redistest.Told()
	fmt.Println("ready")
	do := m.Do
	if fields[0] == "read" {
		do = m.RDo
	}
	if err := do(context.Background(), func(context.Context) error {
		fmt.Println("held")
		<-told
		return nil
	}); err != nil {
		panic(err)
	}
	fmt.Println("done")
	return 0
}

// kinds has the call that acquires each kind of lock, for one key.
var kinds = map[string]func(*redimutex.Client) locktest.Acquire{
	"mutex":     func(c *redimutex.Client) locktest.Acquire { return c.Mutex("k").Acquire },
	"writer":    func(c *redimutex.Client) locktest.Acquire { return write(c.RWMutex("k")) },
	"reader":    func(c *redimutex.Client) locktest.Acquire { return read(c.RWMutex("k")) },
	"semaphore": func(c *redimutex.Client) locktest.Acquire { return c.Semaphore("k", 2).Acquire },
}

// read and write are the two sides of an RWMutex.
func read(m *redimutex.RWMutex) locktest.Acquire  { return m.RAcquire }
func write(m *redimutex.RWMutex) locktest.Acquire { return m.Acquire }

// ways are the options for each way to wait.
var ways = map[string][]redimutex.Option{
	"polling": {redimutex.WithPollInterval(5 * time.Millisecond)},
	"queue":   {redimutex.WithQueue()},
}

// eachWay runs a test with waiters that poll, and with waiters that queue.
func eachWay(t *testing.T, f func(t *testing.T, s *redistest.Server, opts []redimutex.Option)) {
	t.Parallel()
	for name, opts := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, redistest.Start(t), opts)
		})
	}
}

// process returns an RWMutex with a Client of its own, as in another process. Unless the options say otherwise, its TTL and
// its node timeout, on which hand-offs and marks depend, are longer than any stall of a busy machine.
func process(t testing.TB, s *redistest.Server, opts []redimutex.Option, more ...redimutex.Option) *redimutex.RWMutex {
	t.Helper()
	all := append([]redimutex.Option{redimutex.WithTTL(5 * time.Minute), redimutex.WithNodeTimeout(10 * time.Second)}, opts...)
	all = append(all, more...)
	return newClient(t, s.Pool(), all...).RWMutex("k")
}

// A call is a Lock or RLock that may wait.
type call struct {
	done  chan struct{}
	lease *redimutex.Lease
	err   error
}

func start(t testing.TB, acquire locktest.Acquire) *call {
	return startWith(t, t.Context(), acquire)
}

func startWith(t testing.TB, ctx context.Context, acquire locktest.Acquire) *call {
	c := &call{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.lease, c.err = acquire(ctx)
	}()
	t.Cleanup(func() { <-c.done })
	return c
}

func (c *call) over() bool { return locktest.Ended(c.done) }

// get waits for the hold.
func (c *call) get(t testing.TB) *redimutex.Lease {
	t.Helper()
	redistest.Wait(t, "the call to have the lock", c.over)
	require.NoError(t, c.err)
	return c.lease
}

func release(t testing.TB, l *redimutex.Lease) {
	t.Helper()
	require.NoError(t, l.Release(context.Background()))
}

const siblings = "redimutex:%s:{k}"

// shown waits until the set of that name shows at least n processes that wait.
func shown(t testing.TB, s *redistest.Server, set string, n int) {
	t.Helper()
	key := fmt.Sprintf(siblings, set)
	redistest.Wait(t, fmt.Sprintf("%d marks in %s", n, set), func() bool {
		got, err := redis.Int(s.Do("ZCOUNT", key, micros(s), "+inf"), nil)
		return err == nil && got >= n
	})
}

// micros returns the server's clock in µs, as the exclusive lower bound of a ZCOUNT.
func micros(s *redistest.Server) string {
	at, _ := redis.Int64s(s.Do("TIME"), nil)
	return fmt.Sprintf("(%d%06d", at[0], at[1])
}

// queues reports whether t is the part of eachWay with a queue.
func queues(t testing.TB) bool { return strings.HasSuffix(t.Name(), "/queue") }
