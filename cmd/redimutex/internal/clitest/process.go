//go:build unix

package clitest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// A Process is a running redimutex, in its own process group.
type Process struct {
	Cmd  *exec.Cmd
	t    *testing.T
	done chan struct{}
}

// Launch starts the program with arguments. s is its server, and may be nil.
func Launch(t *testing.T, s *redistest.Server, args ...string) *Process {
	t.Helper()
	p := Prepare(t, s, args...)
	p.Start()
	return p
}

// Prepare makes the process without starting it, so that a test can change it first.
func Prepare(t *testing.T, s *redistest.Server, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, Cmd: exec.Command(Self(t), args...), done: make(chan struct{})}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "REDI") {
			p.Cmd.Env = append(p.Cmd.Env, e)
		}
	}
	p.Cmd.Env = append(p.Cmd.Env, "REDIMUTEX_TEST_MAIN=1",
		"GORACE=atexit_sleep_ms=0") // without it, a process that was built with -race takes a second to end
	if s != nil {
		p.Cmd.Env = append(p.Cmd.Env, "REDIMUTEX_URL="+s.URL())
	}
	// Files, not pipes: a process that the command leaves in the background would keep a pipe open.
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	stderr, err := os.Create(filepath.Join(dir, "err"))
	require.NoError(t, err)
	p.Cmd.Stdout, p.Cmd.Stderr = out, stderr
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return p
}

// Self returns the path of the program, for use in a command line.
func Self(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return self
}

// Start starts the process. It ends with the test.
func (p *Process) Start() {
	p.t.Helper()
	require.NoError(p.t, p.Cmd.Start())
	go func() {
		p.Cmd.Wait() //nolint:errcheck // see ProcessState
		close(p.done)
	}()
	p.t.Cleanup(func() {
		p.Cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it has ended, as a rule
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
			p.Cmd.Process.Kill() //nolint:errcheck // likewise
			<-p.done
		}
	})
}

// Out and Err return what the process has printed so far.
func (p *Process) Out() string { return p.read(p.Cmd.Stdout) }
func (p *Process) Err() string { return p.read(p.Cmd.Stderr) }

func (p *Process) read(file any) string {
	p.t.Helper()
	content, err := os.ReadFile(file.(*os.File).Name())
	require.NoError(p.t, err)
	return string(content)
}

// Notes returns the lines of redimutex itself on stderr. Shells print lines of their own when they are signalled.
func (p *Process) Notes() string {
	var notes strings.Builder
	for line := range strings.Lines(p.Err()) {
		if strings.HasPrefix(line, "redimutex") {
			notes.WriteString(line)
		}
	}
	return notes.String()
}

// DiedOf returns the signal that killed the process, or 0.
func (p *Process) DiedOf() syscall.Signal {
	if status := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return status.Signal()
	}
	return 0
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Status waits for the end and returns the exit status. If a signal ended the process, it is the status that a shell reports.
func (p *Process) Status() int {
	p.t.Helper()
	redistest.Wait(p.t, "the end of redimutex "+strings.Join(p.Cmd.Args[1:], " "), p.Ended)
	if by := p.DiedOf(); by != 0 {
		return 128 + int(by)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Signal sends the process a signal.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.Cmd.Process.Signal(s))
}

// Reaches waits until the channel is closed, which shows that the process has come so far. It fails if the process ends first.
func (p *Process) Reaches(so <-chan struct{}) {
	p.t.Helper()
	select {
	case <-so:
	case <-p.done:
		require.Fail(p.t, "it ended before", "status %d: %s", p.Status(), p.Err())
	}
}

// Says waits until stdout contains the words.
func (p *Process) Says(words string) {
	p.t.Helper()
	redistest.Wait(p.t, "the output "+words, func() bool { return strings.Contains(p.Out(), words) })
}

// Warns waits until stderr contains the words.
func (p *Process) Warns(words string) {
	p.t.Helper()
	redistest.Wait(p.t, "the message "+words, func() bool { return strings.Contains(p.Err(), words) })
}

// RunEnds is Run that also checks the exit status.
func RunEnds(t *testing.T, status int, s *redistest.Server, args ...string) (out, err string) {
	t.Helper()
	is, out, err := Run(t, s, args...)
	assert.Equal(t, status, is, "%q: %s", args, err)
	return out, err
}

// Run runs the program to its end.
func Run(t *testing.T, s *redistest.Server, args ...string) (status int, out, err string) {
	t.Helper()
	p := Launch(t, s, args...)
	status = p.Status()
	return status, p.Out(), p.Err()
}

// Prints waits until a script has printed n numbers in brackets, and returns them.
func (p *Process) Prints(n int) (numbers []int) {
	p.t.Helper()
	redistest.Wait(p.t, fmt.Sprint(n, " numbers"), func() bool {
		numbers = nil
		for _, field := range strings.FieldsFunc(p.Out(), func(r rune) bool { return r == '[' || r == ']' || r == '\n' }) {
			if n, err := strconv.Atoi(field); err == nil {
				numbers = append(numbers, n)
			}
		}
		return len(numbers) >= n
	})
	return numbers
}

// FullPipe returns the writing end of a full pipe.
func FullPipe(t *testing.T) *os.File {
	t.Helper()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close(); writer.Close() })
	raw, err := writer.SyscallConn()
	require.NoError(t, err)
	for err == nil { // a deadline may pass before the first byte is written
		require.NoError(t, raw.Write(func(fd uintptr) bool {
			_, err = syscall.Write(int(fd), make([]byte, 1<<16))
			return true
		}))
	}
	require.ErrorIs(t, err, syscall.EAGAIN)
	return writer
}
