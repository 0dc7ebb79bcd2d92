package redistest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A Worker is the test binary as another process that plays a Role.
type Worker struct {
	t     testing.TB
	cmd   *exec.Cmd
	leash io.WriteCloser // its standard input, which closes when this process ends
	says  chan string    // closed when the worker has ended
}

// StartWorker starts a process with variable, that of a Role, set to value. It is killed at the end of the test.
func StartWorker(t testing.TB, variable, value string) *Worker {
	t.Helper()
	w := &Worker{t: t, cmd: exec.Command(os.Args[0], "-test.run=^$"), says: make(chan string, 10)}
	w.cmd.Env = append(os.Environ(), variable+"="+value,
		"GORACE=atexit_sleep_ms=0") // without it, a process that was built with -race takes a second to end
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if w.leash, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.says)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.says <- lines.Text()
		}
	}()
	t.Cleanup(w.Kill)
	return w
}

// Kill ends the process at once, as kill -9 does, and waits for it.
func (w *Worker) Kill() {
	w.leash.Close()
	w.Signal(syscall.SIGKILL)
	for range w.says { //nolint:revive // until it has ended
	}
	_ = w.cmd.Wait()
}

// Signal sends the process a signal.
func (w *Worker) Signal(sig syscall.Signal) { _ = w.cmd.Process.Signal(sig) }

// Stop suspends the process, and returns when it no longer runs.
func (w *Worker) Stop() {
	w.t.Helper()
	if err := halt(w.cmd.Process.Pid); err != nil {
		w.t.Fatalf("the worker did not stop: %v", err)
	}
}

// Continue ends Stop.
func (w *Worker) Continue() {
	if err := Resume(w.cmd.Process.Pid); err != nil {
		w.t.Error(err)
	}
}

// Said returns what the worker says, line by line. It is closed when the worker has ended.
func (w *Worker) Said() <-chan string { return w.says }

// Hear returns the next line that the worker says.
func (w *Worker) Hear() string {
	w.t.Helper()
	select {
	case line, ok := <-w.says:
		if !ok {
			w.t.Fatal("the worker has ended")
		}
		return line
	case <-time.After(time.Minute):
		w.t.Fatal("the worker says nothing")
		return ""
	}
}

// Told returns, in the process of a Worker, the lines that Tell sends it. When the test can't send more, that process exits.
func Told() <-chan string {
	told := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			told <- lines.Text()
		}
		os.Exit(3)
	}()
	return told
}

// Tell sends a line to the worker's standard input.
func (w *Worker) Tell(line string) {
	w.t.Helper()
	if _, err := io.WriteString(w.leash, line+"\n"); err != nil {
		w.t.Fatal(err)
	}
}
