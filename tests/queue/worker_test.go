package queue_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
)

// The test binary is a worker process where this is set: to the address of the server, the node timeout,
// and how many Clients want the lock.
const workerVariable = "REDIMUTEX_TEST_QUEUE_WORKER"

// A worker is another process that wants the lock. Each of its Clients says "held" when it has a valid lease,
// and with the next line on its standard input "unlocked".
type worker struct {
	t     *testing.T
	cmd   *exec.Cmd
	leash io.WriteCloser // the worker ends when this closes
	says  chan string    // closed when it has ended
}

func startWorker(t *testing.T, addr string, nodeTimeout time.Duration, clients int) *worker {
	t.Helper()
	w := &worker{t: t, cmd: exec.Command(os.Args[0], "-test.run=^$"), says: make(chan string, 10)}
	w.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", workerVariable, addr, nodeTimeout, clients))
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	require.NoError(t, err)
	w.leash, err = w.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, w.cmd.Start())
	go func() {
		defer close(w.says)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.says <- lines.Text()
		}
	}()
	t.Cleanup(w.kill)
	return w
}

func (w *worker) kill() {
	w.leash.Close()
	w.signal(syscall.SIGKILL)
	for range w.says { //nolint:revive // until it has ended
	}
	_ = w.cmd.Wait()
}

func (w *worker) signal(sig syscall.Signal) { _ = w.cmd.Process.Signal(sig) }

// stops stops the process, and returns when it does nothing any more.
func (w *worker) stops() {
	w.t.Helper()
	w.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	_, err := syscall.Wait4(w.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(w.t, err)
	require.True(w.t, status.Stopped())
}

// goesOn ends stops.
func (w *worker) goesOn() { w.signal(syscall.SIGCONT) }

// hears returns the next thing that the worker says.
func (w *worker) hears() string {
	w.t.Helper()
	select {
	case line, ok := <-w.says:
		require.True(w.t, ok, "the worker has ended")
		return line
	case <-time.After(time.Minute):
		w.t.Fatal("the worker says nothing")
		return ""
	}
}

// unlocks has the worker unlock what it holds.
func (w *worker) unlocks() {
	w.t.Helper()
	_, err := io.WriteString(w.leash, "go on\n")
	require.NoError(w.t, err)
	require.Equal(w.t, "unlocked", w.hears())
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
