// Package crew starts worker processes from this program's own file, and exchanges lines of JSON with them: orders go in,
// messages come out.
package crew

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// variable is the environment variable that names the role of a worker process.
const variable = "REDIMUTEX_LAB_ROLE"

// A Hand is a worker process, as seen by the process that started it. Its messages have type M.
type Hand[M any] struct {
	Messages chan M // closed when the process has ended

	cmd    *exec.Cmd
	orders io.WriteCloser
	said   bytes.Buffer // output that is not a message; complete when Messages is closed
	err    error        // how the process ended; set when Messages is closed
}

// Hire starts a worker process in a role, with more environment variables. The worker ends with this process, at the latest.
func Hire[M any](role string, environment ...string) (*Hand[M], error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return HireFrom[M](self, role, environment...)
}

// HireFrom is Hire with the file of another program, which has the role.
func HireFrom[M any](program, role string, environment ...string) (*Hand[M], error) {
	h := &Hand[M]{cmd: exec.Command(program), Messages: make(chan M, 100)}
	h.cmd.Env = append(append(os.Environ(), variable+"="+role), environment...)
	var trouble bytes.Buffer
	h.cmd.Stderr = &trouble
	h.cmd.SysProcAttr = leashed()
	in, inErr := h.cmd.StdinPipe()
	out, outErr := h.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, h.cmd.Start()); err != nil {
		return nil, err
	}
	h.orders = in
	go func() {
		defer close(h.Messages)
		h.read(out)
		h.err = h.cmd.Wait()
		h.said.Write(trouble.Bytes())
	}()
	return h, nil
}

// read passes on what the process says, until it ends.
func (h *Hand[M]) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var m M
		if !bytes.HasPrefix(lines.Bytes(), []byte("{")) || json.Unmarshal(lines.Bytes(), &m) != nil {
			h.said.Write(append(lines.Bytes(), '\n'))
			continue
		}
		h.Messages <- m
	}
}

// Tell sends an order to the process.
func (h *Hand[M]) Tell(order any) error { return json.NewEncoder(h.orders).Encode(order) }

// Hear returns the next message.
func (h *Hand[M]) Hear(ctx context.Context) (M, error) {
	var none M
	select {
	case m, ok := <-h.Messages:
		if !ok {
			return none, h.Trouble()
		}
		return m, nil
	case <-ctx.Done():
		return none, fmt.Errorf("a worker does not answer: %w", context.Cause(ctx))
	}
}

// Trouble returns an error that says how the process ended, with the last of its output. Call it only after Messages is
// closed.
func (h *Hand[M]) Trouble() error {
	const enough = 20_000
	said := h.said.Bytes()
	return fmt.Errorf("a worker has ended (%v): %s", h.cmd.ProcessState, said[max(0, len(said)-enough):])
}

// Err returns why the process has failed, or nil. Call it only after Messages is closed.
func (h *Hand[M]) Err() error {
	if h.err == nil {
		return nil
	}
	return h.Trouble()
}

// Dismiss tells the process that there are no more orders.
func (h *Hand[M]) Dismiss() { h.orders.Close() }

// Kill ends the process at once, as kill -9 does. Messages that it sent before still arrive.
func (h *Hand[M]) Kill() error { return h.cmd.Process.Kill() }

// Close ends the process, and drops its remaining messages. After patience it kills a process that has not ended by itself.
func (h *Hand[M]) Close(patience time.Duration) {
	h.Dismiss()
	timer := time.AfterFunc(patience, func() { h.Kill() }) //nolint:errcheck // it may have ended
	defer timer.Stop()
	for range h.Messages { //nolint:revive // until it has ended
	}
}

// Stop suspends the process, and returns when it no longer runs.
func (h *Hand[M]) Stop(patience time.Duration) error {
	if err := h.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	stat := fmt.Sprintf("/proc/%d/stat", h.cmd.Process.Pid)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(stat)
		if err != nil {
			return err
		}
		if i := bytes.LastIndexByte(b, ')'); i >= 0 && len(b) > i+2 && b[i+2] == 'T' {
			return nil
		}
	}
	return fmt.Errorf("a worker did not stop in %v", patience)
}

// Resume lets a stopped process continue.
func (h *Hand[M]) Resume() error { return h.cmd.Process.Signal(syscall.SIGCONT) }
