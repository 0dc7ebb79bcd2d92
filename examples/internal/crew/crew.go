// Package crew starts an example again, as worker processes. Each worker gets a job on its standard input, because a URL in it
// may contain a password, which a command line would show to every user. It reports events on its standard output. Both are
// JSON.
package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// variable marks a process as a worker.
const variable = "REDIMUTEX_EXAMPLE_WORKER"

// Hired reports whether this process is a worker. If so, its main function must call Work.
func Hired() bool { return os.Getenv(variable) != "" }

// A Boss gives a worker its job, and receives its events.
type Boss[Order any] struct {
	mu  sync.Mutex // of out
	out *json.Encoder

	Orders <-chan Order // closed when the boss has gone, or wants the worker to end
}

// Work runs work with the job of this worker, and returns the exit status.
func Work[Job, Order any](work func(job Job, boss *Boss[Order]) error) int {
	signal.Ignore(syscall.SIGINT) // a Ctrl-C reaches all processes, and the boss decides
	in := json.NewDecoder(os.Stdin)
	var job Job
	err := in.Decode(&job)
	if err == nil {
		orders := make(chan Order)
		go func() {
			defer close(orders)
			for {
				var o Order
				if in.Decode(&o) != nil {
					return
				}
				orders <- o
			}
		}()
		err = work(job, &Boss[Order]{out: json.NewEncoder(os.Stdout), Orders: orders})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "worker %d: %v\n", os.Getpid(), err)
		return 1
	}
	return 0
}

// Tell sends an event to the boss.
func (b *Boss[Order]) Tell(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out.Encode(event) //nolint:errcheck,errchkjson // no reader is left: the end of Orders shows that as well
}

// A Worker is a worker process, as seen by its boss.
type Worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// Hire starts a worker and sends it its job. hear is called with each event. over is called when the process has ended and no
// event will follow. Both run on a goroutine of this worker. The end of ctx kills the worker.
func Hire[Event any](ctx context.Context, job any, hear func(w *Worker, e Event), over func(w *Worker, err error)) (*Worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &Worker{cmd: exec.CommandContext(ctx, self)}
	w.cmd.Env = append(os.Environ(), variable+"=1")
	w.cmd.Stderr = os.Stderr
	in, inErr := w.cmd.StdinPipe()
	out, outErr := w.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	w.in = in
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		for events := json.NewDecoder(out); ; {
			var e Event
			if events.Decode(&e) != nil { // the end, or a line that a kill cut off
				break
			}
			hear(w, e)
		}
		io.Copy(io.Discard, out) //nolint:errcheck // until the end, whatever comes
		over(w, w.cmd.Wait())
	}()
	w.Order(job)
	return w, nil
}

// Order sends an order. A worker that has ended does not get it.
func (w *Worker) Order(order any) {
	json.NewEncoder(w.in).Encode(order) //nolint:errcheck,errchkjson // see above
}

// Signal sends the process a signal.
func (w *Worker) Signal(s os.Signal) error { return w.cmd.Process.Signal(s) }
