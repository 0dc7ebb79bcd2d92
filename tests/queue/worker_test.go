package queue_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// The test binary is a worker process where this is set: to the address of the server, the node timeout,
// and how many Clients want the lock.
const workerVariable = "REDIMUTEX_TEST_QUEUE_WORKER"

// startWorker starts a process whose Clients want the lock. Each says "held" when it has a valid lease, and
// with the next line on its standard input "unlocked".
func startWorker(t *testing.T, addr string, nodeTimeout time.Duration, clients int) *redistest.Worker {
	t.Helper()
	return redistest.StartWorker(t, workerVariable, fmt.Sprintf("%s %s %d", addr, nodeTimeout, clients))
}

// unlocks has the worker unlock what it holds.
func unlocks(t *testing.T, w *redistest.Worker) {
	t.Helper()
	w.Tell("go on")
	require.Equal(t, "unlocked", w.Hear())
}

// work is main of a worker process.
func work(what string) int {
	fields := strings.Fields(what)
	timeout, err := time.ParseDuration(fields[1])
	if err != nil {
		panic(err)
	}
	var clients int
	if _, err := fmt.Sscan(fields[2], &clients); err != nil {
		panic(err)
	}
	pool := &redis.Pool{MaxIdle: 10, MaxActive: 50, Wait: true, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", fields[0]) }}
	leash := make(chan struct{})
	done := make(chan struct{})
	for range clients {
		m := redimutex.New(pool, key, redimutex.WithQueue(), redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(timeout))
		go func() {
			m.Lock()
			if err := m.Lease().Err(); err != nil {
				fmt.Println(err)
			} else {
				fmt.Println("held")
			}
			<-leash
			m.Unlock()
			fmt.Println("unlocked")
			done <- struct{}{}
		}()
	}
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			leash <- struct{}{}
		}
		os.Exit(3)
	}()
	for range clients {
		<-done
	}
	return 0
}
