package demo

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// A crew is the worker processes of one round, as seen by the demo. Only one goroutine uses it.
type crew struct {
	workers []*process
	began   time.Time   // by the wall clock, as the workers' times
	reports chan report // of all workers
	alive   int
}

// A process is that of one worker.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser // closing it makes the worker stop
}

// A report is an event, and the number of its worker, from 0. If gone is set, the process has ended instead, with err, and
// sends nothing more.
type report struct {
	event
	worker int
	gone   bool
	err    error
}

// startCrew starts the workers and gives them their job.
func startCrew(j job, stderr io.Writer) (*crew, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &crew{began: time.Now().Round(0), reports: make(chan report)}
	for n := range workerCount {
		w := &process{cmd: exec.Command(self, workerVerb)}
		w.cmd.Stderr = stderr
		in, inErr := w.cmd.StdinPipe()
		out, outErr := w.cmd.StdoutPipe()
		if err := errors.Join(inErr, outErr, w.cmd.Start()); err != nil {
			c.close()
			return nil, err
		}
		w.in = in
		c.workers = append(c.workers, w)
		c.alive++
		go c.listen(n, out)
		j.Worker = n
		json.NewEncoder(in).Encode(j) //nolint:errcheck,errchkjson // if the worker is gone, its report says so
	}
	return c, nil
}

// listen passes on what a worker says, until it has ended.
func (c *crew) listen(n int, out io.Reader) {
	for events := json.NewDecoder(out); ; {
		r := report{worker: n}
		// An incomplete event was cut off by a kill.
		if events.Decode(&r.event) != nil {
			break
		}
		c.reports <- r
	}
	io.Copy(io.Discard, out) //nolint:errcheck // until the end, whatever comes
	c.reports <- report{worker: n, gone: true, err: c.workers[n].cmd.Wait()}
}

// stop makes all workers end by themselves.
func (c *crew) stop() {
	for _, w := range c.workers {
		w.in.Close()
	}
}

// close ends all workers, and returns when all have ended. They have a second to end by themselves.
func (c *crew) close() {
	c.stop()
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	for c.alive > 0 {
		select {
		case r := <-c.reports:
			if r.gone {
				c.alive--
			}
		case <-patience.C:
			for _, w := range c.workers {
				w.cmd.Process.Kill() //nolint:errcheck // it has ended by itself
			}
		}
	}
}
