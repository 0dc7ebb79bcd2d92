package lease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// If roleVariable is set, the test binary is a worker process. The value has the role, the address and the TTL.
const roleVariable = "REDIMUTEX_TEST_WORKER"

// startWorker starts another process that uses the lock.
func startWorker(t *testing.T, role string, s *redistest.Server, ttl time.Duration) *redistest.Worker {
	t.Helper()
	return redistest.StartWorker(t, roleVariable, fmt.Sprintf("%s %s %s", role, s.Addr(), ttl))
}

// lockInAProcess is the main function of a worker process.
func lockInAProcess(what string) int {
	fields := strings.Fields(what)
	ttl, err := time.ParseDuration(fields[2])
	if err != nil {
		panic(err)
	}
	pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", fields[1]) }}
	m := redimutex.New(pool, "k", redimutex.WithTTL(ttl), redimutex.WithPollInterval(5*time.Millisecond))
	told := redistest.Told()
	switch fields[0] {
	case "count":
		count(m, pool)
	case "hold":
		m.Lock()
		l := m.Lease()
		fmt.Println("held")
		<-told
		lost := errors.Is(l.Err(), redimutex.ErrLost)
		err := m.UnlockContext(context.Background())
		fmt.Printf("lease lost: %t, Unlock lost: %t, done: %t\n", lost, errors.Is(err, redimutex.ErrLost), locktest.Ended(l.Done()))
	}
	return 0
}

// count raises the counter in 50 goroutines. Each reads the counter and writes one more.
func count(m *redimutex.Mutex, pool *redis.Pool) {
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			for range 4 {
				m.Lock()
				c := pool.Get()
				n, err := redis.Int(c.Do("GET", "n"))
				if err != nil && !errors.Is(err, redis.ErrNil) {
					panic(err)
				}
				if _, err := c.Do("SET", "n", n+1); err != nil {
					panic(err)
				}
				c.Close()
				m.Unlock()
			}
		})
	}
	group.Wait()
	fmt.Println("done")
}

func TestProcessesLoseNoUpdateUnderTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	workers := make([]*redistest.Worker, 4)
	for i := range workers {
		workers[i] = startWorker(t, "count", s, 30*time.Second)
	}
	for _, w := range workers {
		assert.Equal(t, "done", w.Hear())
	}
	assert.Equal(t, strconv.Itoa(4*50*4), s.Get("n"))
	assert.False(t, s.Exists("k"))
}

func TestLockOfAKilledProcessComesFreeWithItsTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = 2 * time.Second
	w := startWorker(t, "hold", s, ttl)
	require.Equal(t, "held", w.Hear())
	m := newMutex(t, s.Pool(), "k")
	assert.False(t, m.TryLock())
	w.Kill()
	killed := time.Now()
	require.NoError(t, m.LockContext(t.Context(), time.Minute))
	took := time.Since(killed)
	assert.Less(t, took, ttl+5*time.Second)
	t.Logf("recovered after %v, with a TTL of %v", took, ttl)
	m.Unlock()
}

// No lease can keep a paused holder out. But when the holder goes on, it knows that its lease is lost.
func TestProcessThatWasPausedForLongerThanItsLeaseKnowsOnWaking(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	for range 5 {
		w := startWorker(t, "hold", s, 500*time.Millisecond)
		require.Equal(t, "held", w.Hear())
		w.Stop()
		require.NoError(t, m.LockContext(t.Context(), time.Minute), "the lease ends although its holder lives")
		w.Tell("look") // the line is there for the process when it goes on
		w.Continue()
		assert.Equal(t, "lease lost: true, Unlock lost: true, done: true", w.Hear())
		assert.Equal(t, m.Lease().Token(), s.Get("k"), "and our key is not touched")
		require.NoError(t, m.UnlockContext(t.Context()))
	}
}

// The resource remembers the highest fence and refuses lower ones. It also keeps books by tokens, independently of the fences:
// a write is stale if another hold has already written after its own hold did.
var resource = redis.NewScript(1, `
local book, fence, token = KEYS[1], tonumber(ARGV[1]), ARGV[2]
if fence < tonumber(redis.call('HGET', book, 'fence') or 0) then
  redis.call('HINCRBY', book, 'refused', 1)
  return 0
end
local last = redis.call('HGET', book, 'token')
if last ~= token then
  if redis.call('SISMEMBER', book .. ':over', token) == 1 then
    redis.call('HINCRBY', book, 'stale', 1)
  end
  redis.call('SADD', book .. ':over', last or '')
end
redis.call('HSET', book, 'fence', ARGV[1], 'token', token, 'pid', ARGV[3])
redis.call('HINCRBY', book, 'accepted', 1)
return 1`)

// If workerVariable is set, the test binary is a worker process. The value has the addresses of the servers and of the
// resource, and the TTL.
const workerVariable = "REDIMUTEX_TEST_FENCE_WORKER"

// writeFenced is the main function of a worker process. It locks and writes to the resource until it is killed.
func writeFenced(what string) int {
	fields := strings.Fields(what)
	ttl, err := time.ParseDuration(fields[2])
	if err != nil {
		panic(err)
	}
	redistest.Told() // ends the process with its parent
	dial := func(address string) *redis.Pool {
		return &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address) }}
	}
	var pools []redimutex.Pool
	for _, s := range strings.Split(fields[0], ",") {
		pools = append(pools, dial(s))
	}
	pid := strconv.Itoa(os.Getpid())
	m := redimutex.NewRedlock(pools, "k", redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(ttl/3),
		redimutex.WithPollInterval(5*time.Millisecond), redimutex.WithFencing(), redimutex.WithOwner(pid))
	c := dial(fields[1]).Get()
	must := func(_ any, err error) {
		if err != nil {
			panic(err)
		}
	}
	for {
		m.Lock()
		l := m.Lease()
		// The worker does not ask before a write whether the lease is over. The point is that a holder may not know that.
		for range 100 {
			ok, err := redis.Bool(resource.Do(c, "book", l.Fence(), l.Token(), pid))
			must(nil, err)
			if ok {
				continue
			}
			if l.Err() == nil {
				must(c.Do("HINCRBY", "book", "refused-a-holder", 1))
			}
			break
		}
		_ = m.UnlockContext(context.Background()) // the lease may be lost, as the test wants
		must(c.Do("HINCRBY", "book", "holds:"+pid, 1))
	}
}

func TestResourceThatChecksFencesTakesNoStaleWrite(t *testing.T) {
	t.Parallel()
	const wanted = 12 // stale writes, each by a holder that was stopped for longer than its lease
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d servers", n), func(t *testing.T) {
			t.Parallel()
			book := redistest.Start(t)
			c := locktest.Start(t, n)
			var addresses []string
			for _, s := range c {
				addresses = append(addresses, s.Addr())
			}
			for range 3 {
				redistest.StartWorker(t, workerVariable, strings.Join(addresses, ",")+" "+book.Addr()+" 300ms")
			}
			conn := book.Pool().Get()
			defer conn.Close()
			figure := func(name string) int {
				v, err := redis.String(conn.Do("HGET", "book", name))
				if err != nil {
					require.ErrorIs(t, err, redis.ErrNil)
				}
				i, _ := strconv.Atoi(v)
				return i
			}
			pauses := 0
			for figure("refused") < wanted {
				require.Less(t, pauses, 10*wanted, "the pauses do not lead to stale writes")
				pid := figure("pid")
				if pid == 0 {
					redistest.Wait(t, "the first write", func() bool { return figure("pid") != 0 })
					continue
				}
				refused, holds := figure("refused"), figure(fmt.Sprintf("holds:%d", pid))
				require.NoError(t, redistest.Stop(pid))
				pauses++
				redistest.Wait(t, "a write of the next holder", func() bool { return figure("pid") != pid })
				require.NoError(t, redistest.Resume(pid))
				redistest.Wait(t, "the one that was stopped to go on", func() bool {
					return figure("refused") > refused || figure(fmt.Sprintf("holds:%d", pid)) > holds+1
				})
			}
			assert.Zero(t, figure("stale"), "stale writes that were accepted")
			assert.Zero(t, figure("refused-a-holder"), "writes under a valid lease that were refused")
			assert.Positive(t, pauses) // a slow machine also makes stale writers
			t.Logf("%d pauses, %d stale writes refused, %d accepted; %d writes in all", pauses, figure("refused"), figure("stale"), figure("accepted"))
		})
	}
}
