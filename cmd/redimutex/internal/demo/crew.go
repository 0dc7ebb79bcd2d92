package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// A crew is the worker processes, as the demo sees them. One goroutine uses it.
type crew struct {
	workers []*crewWorker
	reports chan report // of all workers
}

// A crewWorker is one of the processes.
type crewWorker struct {
	cmd    *exec.Cmd
	orders io.WriteCloser
	ready  bool // it knows its job
	gone   bool // it has ended
}

// A report is an event, and the number of the worker that it came from, from 0. gone says instead
// that the process has ended and nothing more will come from it.
type report struct {
	event
	worker int
	gone   bool
}

// startCrew starts the workers and gives them their job.
func startCrew(j demoJob, stderr io.Writer) (*crew, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &crew{reports: make(chan report)}
	for n := range demoWorkers {
		w := &crewWorker{cmd: exec.Command(self, "demo", "-"+workerFlag)}
		w.cmd.Stderr = stderr
		in, inErr := w.cmd.StdinPipe()
		out, outErr := w.cmd.StdoutPipe()
		if err := errors.Join(inErr, outErr, w.cmd.Start()); err != nil {
			c.close()
			return nil, err
		}
		w.orders = in
		c.workers = append(c.workers, w)
		go c.listen(n, w, out)
		j.Worker = n + 1
		c.tell(n, order{Job: &j})
	}
	return c, nil
}

// listen passes on what a worker says, until it has ended.
func (c *crew) listen(n int, w *crewWorker, out io.Reader) {
	for events := json.NewDecoder(out); ; {
		r := report{worker: n}
		// What ends in the middle was cut off by a kill.
		if events.Decode(&r.event) != nil {
			break
		}
		c.reports <- r
	}
	io.Copy(io.Discard, out) //nolint:errcheck // until the end, whatever comes
	w.cmd.Wait()             //nolint:errcheck // how it ended is known
	c.reports <- report{worker: n, gone: true}
}

// ready waits until all workers know their job.
func (c *crew) ready(ctx context.Context) error {
	for _, w := range c.workers {
		for !w.ready && !w.gone {
			r, _, err := c.next(ctx, nil)
			switch {
			case err != nil:
				return err
			case r.Kind == eventError:
				return fmt.Errorf("worker %d: %s", r.worker+1, r.Text)
			case r.gone:
				return fmt.Errorf("worker %d has ended before it began", r.worker+1)
			}
		}
	}
	return nil
}

// tell gives an order to a worker. One that is gone does not hear it; its report says so.
func (c *crew) tell(n int, o order) {
	json.NewEncoder(c.workers[n].orders).Encode(o) //nolint:errcheck,errchkjson // see above
}

func (c *crew) tellAll(o order) {
	for n, w := range c.workers {
		if !w.gone {
			c.tell(n, o)
		}
	}
}

// next waits for the next report.
func (c *crew) next(ctx context.Context, timer <-chan time.Time) (r report, ok bool, err error) {
	select {
	case r = <-c.reports:
		w := c.workers[r.worker]
		w.gone = w.gone || r.gone
		w.ready = w.ready || r.Kind == eventReady
		return r, true, nil
	case <-timer:
		return report{}, false, nil
	case <-ctx.Done():
		return report{}, false, context.Cause(ctx)
	}
}

func (c *crew) kill(n int) error {
	if err := c.workers[n].cmd.Process.Kill(); err != nil {
		return fmt.Errorf("worker %d could not be killed: %w", n+1, err)
	}
	return nil
}

// alive returns how many workers have not ended.
func (c *crew) alive() int {
	n := 0
	for _, w := range c.workers {
		if !w.gone {
			n++
		}
	}
	return n
}

// close ends all workers, and returns when none is left. They have a second to do it by themselves.
func (c *crew) close() {
	for _, w := range c.workers {
		w.orders.Close()
	}
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	for c.alive() > 0 {
		if _, ok, _ := c.next(context.Background(), patience.C); ok {
			continue
		}
		for n, w := range c.workers {
			if !w.gone {
				c.kill(n) //nolint:errcheck // it has just ended by itself
			}
		}
	}
}
