package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// A crew is the worker processes of one round, as the demo sees them. One goroutine uses it.
type crew struct {
	workers []*crewWorker
	began   time.Time   // on the wall clock, as the workers' times
	reports chan report // of all workers
	alive   int
}

// A crewWorker is one of the processes.
type crewWorker struct {
	cmd *exec.Cmd
	in  io.WriteCloser // its end has the worker stop
}

// A report is an event, and the number of the worker that it came from, from 0. gone says instead
// that the process has ended, with err, and nothing more will come from it.
type report struct {
	event
	worker int
	gone   bool
	err    error
}

// startCrew starts the workers and gives them their job.
func startCrew(j demoJob, stderr io.Writer) (*crew, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &crew{began: time.Now().Round(0), reports: make(chan report)}
	for n := range demoWorkers {
		w := &crewWorker{cmd: exec.Command(self, workerVerb)}
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
		json.NewEncoder(in).Encode(j) //nolint:errcheck,errchkjson // one that is gone does not hear it, and its report says so
	}
	return c, nil
}

// listen passes on what a worker says, until it has ended.
func (c *crew) listen(n int, out io.Reader) {
	for events := json.NewDecoder(out); ; {
		r := report{worker: n}
		// What ends in the middle was cut off by a kill.
		if events.Decode(&r.event) != nil {
			break
		}
		c.reports <- r
	}
	io.Copy(io.Discard, out) //nolint:errcheck // until the end, whatever comes
	c.reports <- report{worker: n, gone: true, err: c.workers[n].cmd.Wait()}
}

// stop has all workers end by themselves.
func (c *crew) stop() {
	for _, w := range c.workers {
		w.in.Close()
	}
}

// close ends all workers, and returns when none is left. They have a second to do it by themselves.
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

// A counter is a number in a file. It is always eight digits at the beginning of the file, written
// by one call: so a process that is killed leaves the old number or the new one, and never a mixture.
type counter struct{ file *os.File }

const counterSize = 8

func openCounter(path string) (*counter, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &counter{f}, nil
}

// read returns the number. A read beside a write may see half of that, so it reads until it has seen the same twice.
func (c *counter) read() (int, error) {
	var last, b [counterSize]byte
	for {
		if _, err := c.file.ReadAt(b[:], 0); err != nil {
			return 0, err
		}
		if b == last {
			return strconv.Atoi(string(b[:]))
		}
		last = b
	}
}

func (c *counter) write(n int) error {
	_, err := c.file.WriteAt(fmt.Appendf(nil, "%0*d", counterSize, n), 0)
	return err
}

func (c *counter) close() { c.file.Close() }
