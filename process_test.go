package redimutex_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// The test binary is a worker process where this is set: to its role, the address and the TTL.
const roleVariable = "REDIMUTEX_TEST_WORKER"

// A worker is another process that uses the lock.
type worker struct {
	t     *testing.T
	cmd   *exec.Cmd
	leash io.WriteCloser // the worker ends when this closes
	lines *bufio.Scanner
}

func startWorker(t *testing.T, role string, s *redistest.Server, ttl time.Duration) *worker {
	t.Helper()
	w := &worker{t: t, cmd: exec.Command(os.Args[0], "-test.run=^$")}
	w.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", roleVariable, role, s.Addr(), ttl))
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	require.NoError(t, err)
	w.lines = bufio.NewScanner(out)
	w.leash, err = w.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, w.cmd.Start())
	t.Cleanup(func() {
		w.leash.Close()
		w.signal(syscall.SIGKILL)
		_ = w.cmd.Wait()
	})
	return w
}

func (w *worker) signal(sig syscall.Signal) { _ = w.cmd.Process.Signal(sig) }

// hears returns the next line that the worker prints.
func (w *worker) hears() string {
	w.t.Helper()
	require.True(w.t, w.lines.Scan(), "the worker has ended")
	return w.lines.Text()
}

// work is main of a worker process.
func work(what string) int {
	fields := strings.Fields(what)
	if fields[0] == "fenced" {
		ttl, _ := time.ParseDuration(fields[3])
		return fencedWorker(strings.Split(fields[1], ","), fields[2], ttl)
	}
	ttl, err := time.ParseDuration(fields[2])
	if err != nil {
		panic(err)
	}
	pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", fields[1]) }}
	m := redimutex.New(pool, "k", redimutex.WithTTL(ttl), redimutex.WithPollInterval(5*time.Millisecond))
	leash := make(chan struct{}, 1)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			leash <- struct{}{}
		}
		os.Exit(3)
	}()
	switch fields[0] {
	case "count":
		count(m, pool)
	case "queue":
		m = redimutex.New(pool, "k", redimutex.WithTTL(ttl), redimutex.WithQueue())
		m.Lock()
		fmt.Println("held")
		<-leash
		m.Unlock()
		fmt.Println("unlocked")
	case "hold":
		m.Lock()
		l := m.Lease()
		fmt.Println("held")
		<-leash
		lost := errors.Is(l.Err(), redimutex.ErrLost)
		err := m.UnlockContext(context.Background())
		fmt.Printf("lease lost: %t, Unlock lost: %t, done: %t\n", lost, errors.Is(err, redimutex.ErrLost), ended(l.Done()))
	}
	return 0
}

// count raises the counter with 50 goroutines, each by reading it and writing one more.
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
	workers := make([]*worker, 4)
	for i := range workers {
		workers[i] = startWorker(t, "count", s, 30*time.Second)
	}
	for _, w := range workers {
		assert.Equal(t, "done", w.hears())
	}
	assert.Equal(t, strconv.Itoa(4*50*4), s.Get("n"))
	assert.False(t, exists(t, s, "k"))
}

func TestLockOfAKilledProcessComesFreeWithItsTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = 2 * time.Second
	w := startWorker(t, "hold", s, ttl)
	require.Equal(t, "held", w.hears())
	m := newMutex(t, s.Pool(), "k")
	assert.False(t, m.TryLock())
	w.signal(syscall.SIGKILL)
	_ = w.cmd.Wait()
	killed := time.Now()
	require.NoError(t, m.LockContext(t.Context(), time.Minute))
	took := time.Since(killed)
	assert.Less(t, took, ttl+5*time.Second)
	t.Logf("recovered after %v, with a TTL of %v", took, ttl)
	m.Unlock()
}

// No lease excludes a paused holder. But when it wakes up it knows.
func TestProcessThatWasPausedForLongerThanItsLeaseKnowsOnWaking(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newMutex(t, s.Pool(), "k")
	for range 5 {
		w := startWorker(t, "hold", s, 500*time.Millisecond)
		require.Equal(t, "held", w.hears())
		w.signal(syscall.SIGSTOP)
		require.NoError(t, m.LockContext(t.Context(), time.Minute), "the lease ends although its holder lives")
		_, err := io.WriteString(w.leash, "look\n") // is waiting for it when it wakes up
		require.NoError(t, err)
		w.signal(syscall.SIGCONT)
		assert.Equal(t, "lease lost: true, Unlock lost: true, done: true", w.hears())
		assert.Equal(t, m.Lease().Token(), s.Get("k"), "and our key is not touched")
		require.NoError(t, m.UnlockContext(t.Context()))
	}
}
