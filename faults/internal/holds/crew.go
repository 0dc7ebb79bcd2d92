package holds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A hand is a worker process, as the row sees it that has started it.
type hand struct {
	cmd      *exec.Cmd
	orders   io.WriteCloser
	messages chan message // closed when the process has ended
	stderr   bytes.Buffer // complete when messages is closed
}

// hire starts a worker process, from the file that this one was started from, until the end of the
// test at most. It is ready when hire returns.
func hire(t testing.TB, j job) (*hand, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	h := &hand{cmd: exec.Command(self, workerArgument, string(text)), messages: make(chan message, 100)}
	h.cmd.Stderr = &h.stderr
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // one that is stopped can't end itself
	in, inErr := h.cmd.StdinPipe()
	out, outErr := h.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, h.cmd.Start()); err != nil {
		return nil, err
	}
	h.orders = in
	go func() {
		defer close(h.messages)
		defer h.cmd.Wait() //nolint:errcheck // most are killed
		for d := json.NewDecoder(out); ; {
			var m message
			if d.Decode(&m) != nil {
				return
			}
			h.messages <- m
		}
	}()
	t.Cleanup(h.kill)
	_, err = h.hear(t.Context(), sayReady)
	return h, err
}

func (h *hand) tell(what string) error {
	b, err := json.Marshal(message{What: what})
	if err != nil {
		return err
	}
	_, err = h.orders.Write(append(b, '\n'))
	return err
}

// patience is how long a process may take for what should be done in a second.
const patience = 60 * time.Second

// hear returns the next message, which has to say what.
func (h *hand) hear(ctx context.Context, what string) (message, error) {
	return h.serve(ctx, what, nil)
}

// serve answers requests to write, until a message says what.
func (h *hand) serve(ctx context.Context, what string, write func(message) bool) (message, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case m, ok := <-h.messages:
			switch {
			case !ok:
				return m, fmt.Errorf("a worker has ended before it said %q: %s", what, tail(h.stderr.Bytes()))
			case m.What == what:
				return m, nil
			case m.What == sayWrite && write != nil:
				answer := sayRefused
				if write(m) {
					answer = sayAccepted
				}
				if err := h.tell(answer); err != nil {
					return m, err
				}
			default:
				return m, fmt.Errorf("a worker said %q instead of %q: %s", m.What, what, m.Error)
			}
		case <-timer.C:
			return message{}, fmt.Errorf("a worker has not said %q for %v", what, patience)
		case <-ctx.Done():
			return message{}, context.Cause(ctx)
		}
	}
}

// ask tells and hears.
func (h *hand) ask(ctx context.Context, order, answer string, write func(message) bool) (message, error) {
	if err := h.tell(order); err != nil {
		return message{}, err
	}
	return h.serve(ctx, answer, write)
}

// stop stops the process, and returns when it does not run any more.
func (h *hand) stop() error {
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

func (h *hand) resume() error { return h.cmd.Process.Signal(syscall.SIGCONT) }

// kill ends the process at once, and drops what it still had to say.
func (h *hand) kill() {
	h.cmd.Process.Kill() //nolint:errcheck // it may have ended
	for range h.messages {
	}
	h.orders.Close()
}

// tail returns the end of what a process had to say.
func tail(b []byte) []byte {
	const enough = 2000
	return b[max(0, len(b)-enough):]
}
