package lease_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// The resource remembers the highest fence and refuses lower ones. Besides, it keeps books by tokens,
// which know nothing of fences: a write is stale if its hold has been followed by another's already.
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

// The test binary is a worker process where this is set: to the addresses of the servers and of the resource,
// and the TTL.
const workerVariable = "REDIMUTEX_TEST_FENCE_WORKER"

// writeFenced locks and writes to the resource until it is killed: main of a worker process.
func writeFenced(what string) int {
	fields := strings.Fields(what)
	ttl, err := time.ParseDuration(fields[2])
	if err != nil {
		panic(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
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
		// Whether the lease is over is not asked before a write: that a holder may not know is the point.
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
		_ = m.UnlockContext(context.Background()) // that the lease was lost is no news here
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
			assert.GreaterOrEqual(t, pauses, wanted)
			t.Logf("%d pauses, %d stale writes refused, %d accepted; %d writes in all", pauses, figure("refused"), figure("stale"), figure("accepted"))
		})
	}
}
