//go:build unix

package clitest

import (
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

// A Process is a redimutex that runs, in a process group of its own.
type Process struct {
	Cmd  *exec.Cmd
	t    *testing.T
	done chan struct{}
}

// Launch starts the program with arguments, for the server, which may be nil.
func Launch(t *testing.T, s *redistest.Server, args ...string) *Process {
	t.Helper()
	p := Prepare(t, s, args...)
	p.Start()
	return p
}

// Prepare makes the process, so that a test can change it before the start.
func Prepare(t *testing.T, s *redistest.Server, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, Cmd: exec.Command(Self(t), args...), done: make(chan struct{})}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "REDI") {
			p.Cmd.Env = append(p.Cmd.Env, e)
		}
	}
	p.Cmd.Env = append(p.Cmd.Env, "REDIMUTEX_TEST_MAIN=1",
		"GORACE=atexit_sleep_ms=0") // else each process that was built with -race takes a second to end
	if s != nil {
		p.Cmd.Env = append(p.Cmd.Env, "REDIMUTEX_URL="+s.URL())
	}
	// Files and not pipes: what a command leaves in the background would keep a pipe open.
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	stderr, err := os.Create(filepath.Join(dir, "err"))
	require.NoError(t, err)
	p.Cmd.Stdout, p.Cmd.Stderr = out, stderr
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return p
}

// Self is the program, for a command line of its own.
func Self(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return self
}

// Start starts the process. It is ended with the test.
func (p *Process) Start() {
	p.t.Helper()
	require.NoError(p.t, p.Cmd.Start())
	go func() {
		p.Cmd.Wait() //nolint:errcheck // ProcessState tells
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

// Out and Err are what it has printed until now.
func (p *Process) Out() string { return p.Read(p.Cmd.Stdout) }
func (p *Process) Err() string { return p.Read(p.Cmd.Stderr) }

// Notes returns what redimutex itself has said on stderr; shells have something to say as well when they
// are signalled.
func (p *Process) Notes() string {
	var notes strings.Builder
	for line := range strings.Lines(p.Err()) {
		if strings.HasPrefix(line, "redimutex") {
			notes.WriteString(line)
		}
	}
	return notes.String()
}

// Read returns what stands in a file that the process writes.
func (p *Process) Read(file any) string {
	p.t.Helper()
	content, err := os.ReadFile(file.(*os.File).Name())
	require.NoError(p.t, err)
	return string(content)
}

// DiedOf returns the signal of which it has died, or 0.
func (p *Process) DiedOf() syscall.Signal {
	if status := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return status.Signal()
	}
	return 0
}

// Ended reports whether it has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Status waits for the end and returns the exit status, that of a shell where a signal has ended it.
func (p *Process) Status() int {
	p.t.Helper()
	redistest.Wait(p.t, "the end of redimutex "+strings.Join(p.Cmd.Args[1:], " "), p.Ended)
	if by := p.DiedOf(); by != 0 {
		return 128 + int(by)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Signal sends it a signal.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.Cmd.Process.Signal(s))
}

// Reaches waits until the process has come so far, as a channel tells that is closed then. One that has ended never does.
func (p *Process) Reaches(so <-chan struct{}) {
	p.t.Helper()
	select {
	case <-so:
	case <-p.done:
		require.Fail(p.t, "it ended before", "status %d: %s", p.Status(), p.Err())
	}
}

// Says waits until stdout has the words.
func (p *Process) Says(words string) {
	p.t.Helper()
	redistest.Wait(p.t, "the output "+words, func() bool { return strings.Contains(p.Out(), words) })
}

// Warns waits until stderr has the words.
func (p *Process) Warns(words string) {
	p.t.Helper()
	redistest.Wait(p.t, "the message "+words, func() bool { return strings.Contains(p.Err(), words) })
}

// RunEnds is Run with the exit status that it must have.
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

// Sleeper is the start of a script that prints the number of a process in the background.
const Sleeper = `sleep 1000 & echo "[$!]"; `

// Printed returns the numbers in brackets that a script has printed.
func (p *Process) Printed() (numbers []int) {
	p.t.Helper()
	for _, field := range strings.FieldsFunc(p.Out(), func(r rune) bool { return r == '[' || r == ']' || r == '\n' }) {
		if n, err := strconv.Atoi(field); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// Gone reports whether a process has ended. A zombie that no process has waited for has.
func Gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return os.IsNotExist(err) && Exists("/proc/self")
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}

func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// FullPipe returns the end of a pipe to which nothing can be written any more.
func FullPipe(t *testing.T) *os.File {
	t.Helper()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close(); writer.Close() })
	require.NoError(t, writer.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = writer.Write(make([]byte, 1<<22))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	return writer
}
