package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Variable is set in the environment of worker processes. A program that finds it has to call Main.
const Variable = "REDIMUTEX_BENCH_WORKER"

// A Crew is the worker processes, as the program sees them that has started them. One goroutine uses it.
type Crew struct{ hands []*hand }

type hand struct {
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers chan answer // closed when the process has ended
	stderr  bytes.Buffer
}

// Start starts n worker processes, from the file that this one was started from.
func Start(n int) (*Crew, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := new(Crew)
	for range n {
		h := &hand{cmd: exec.Command(self), answers: make(chan answer, 1)}
		h.cmd.Env = append(os.Environ(), Variable+"=1")
		h.cmd.Stderr = &h.stderr
		in, inErr := h.cmd.StdinPipe()
		out, outErr := h.cmd.StdoutPipe()
		if err := errors.Join(inErr, outErr, h.cmd.Start()); err != nil {
			c.Close()
			return nil, err
		}
		h.orders = in
		c.hands = append(c.hands, h)
		go h.listen(out)
	}
	return c, nil
}

// listen passes on what the process says, until it has ended.
func (h *hand) listen(out io.Reader) {
	defer close(h.answers)
	defer h.cmd.Wait() //nolint:errcheck // how it ended does not matter
	for d := json.NewDecoder(out); ; {
		var a answer
		if d.Decode(&a) != nil {
			return
		}
		h.answers <- a
	}
}

// head is how long before the start the workers are told.
const head = 30 * time.Millisecond

// patience is how much longer than planned a job may take, on a machine that is slow.
const patience = 30 * time.Second

// Do has every worker run the job at the same time, and returns their results.
func (c *Crew) Do(ctx context.Context, j Job) ([]Result, error) {
	ctx, cancel := context.WithTimeout(ctx, j.Warm+j.Run+patience)
	defer cancel()
	for i, h := range c.hands {
		j.Worker = i
		if err := h.tell(order{Job: &j}); err != nil {
			return nil, err
		}
	}
	results := make([]Result, len(c.hands))
	for _, h := range c.hands {
		a, err := h.hear(ctx)
		if err != nil {
			return nil, err
		}
		if !a.Ready {
			return nil, errors.New(a.Result.Error)
		}
	}
	start := time.Now().Add(head).UnixNano()
	for _, h := range c.hands {
		if err := h.tell(order{Start: start}); err != nil {
			return nil, err
		}
	}
	for i, h := range c.hands {
		a, err := h.hear(ctx)
		if err != nil {
			return nil, err
		}
		if a.Result == nil || a.Result.Error != "" {
			return nil, fmt.Errorf("worker %d: %+v", i, a)
		}
		results[i] = *a.Result
	}
	return results, nil
}

func (h *hand) tell(o order) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = h.orders.Write(append(b, '\n'))
	return err
}

func (h *hand) hear(ctx context.Context) (answer, error) {
	select {
	case a, ok := <-h.answers:
		if !ok {
			return a, fmt.Errorf("a worker has ended: %s", tail(h.stderr.Bytes()))
		}
		return a, nil
	case <-ctx.Done():
		return answer{}, fmt.Errorf("a worker does not answer: %w", ctx.Err())
	}
}

// tail returns the end of what a process had to say.
func tail(b []byte) []byte {
	const enough = 2000
	return b[max(0, len(b)-enough):]
}

// Close ends the processes.
func (c *Crew) Close() {
	for _, h := range c.hands {
		h.orders.Close()
	}
	for _, h := range c.hands {
		timer := time.AfterFunc(time.Second, func() { h.cmd.Process.Kill() }) //nolint:errcheck // it has ended
		for range h.answers {                                                 // until it has ended
		}
		timer.Stop()
	}
}
