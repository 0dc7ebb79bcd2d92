//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// A process is a redimutex that runs, in a process group of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}
}

// launch starts the program with arguments, for the server, which may be nil.
func launch(t *testing.T, s *redistest.Server, args ...string) *process {
	t.Helper()
	p := prepare(t, s, args...)
	p.start()
	return p
}

// prepare makes the process, so that a test can change it before the start.
func prepare(t *testing.T, s *redistest.Server, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.Command(self, args...), done: make(chan struct{})}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "REDI") {
			p.cmd.Env = append(p.cmd.Env, e)
		}
	}
	p.cmd.Env = append(p.cmd.Env, "REDIMUTEX_TEST_MAIN=1",
		"GORACE=atexit_sleep_ms=0") // else each process that was built with -race takes a second to end
	if s != nil {
		p.cmd.Env = append(p.cmd.Env, "REDIMUTEX_URL="+s.URL())
	}
	// Files and not pipes: what a command leaves in the background would keep a pipe open.
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	stderr, err := os.Create(filepath.Join(dir, "err"))
	require.NoError(t, err)
	p.cmd.Stdout, p.cmd.Stderr = out, stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return p
}

func (p *process) start() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Start())
	go func() {
		p.cmd.Wait() //nolint:errcheck // ProcessState tells
		close(p.done)
	}()
	p.t.Cleanup(func() {
		p.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it has ended, as a rule
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
			p.cmd.Process.Kill() //nolint:errcheck // likewise
			<-p.done
		}
	})
}

func (p *process) out() string { return p.read(p.cmd.Stdout) }
func (p *process) err() string { return p.read(p.cmd.Stderr) }

// notes returns what redimutex itself has said on stderr; shells have something to say as well when they
// are signalled.
func (p *process) notes() string {
	var notes strings.Builder
	for line := range strings.Lines(p.err()) {
		if strings.HasPrefix(line, "redimutex") {
			notes.WriteString(line)
		}
	}
	return notes.String()
}

func (p *process) read(file any) string {
	p.t.Helper()
	content, err := os.ReadFile(file.(*os.File).Name())
	require.NoError(p.t, err)
	return string(content)
}

// status waits for the end and returns the exit status.
func (p *process) status() int {
	p.t.Helper()
	redistest.Wait(p.t, "the end of redimutex "+strings.Join(p.cmd.Args[1:], " "), func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// says waits until stdout has the words.
func (p *process) says(words string) {
	p.t.Helper()
	redistest.Wait(p.t, "the output "+words, func() bool { return strings.Contains(p.out(), words) })
}

// warns waits until stderr has the words.
func (p *process) warns(words string) {
	p.t.Helper()
	redistest.Wait(p.t, "the message "+words, func() bool { return strings.Contains(p.err(), words) })
}

// run runs the program to its end.
func run(t *testing.T, s *redistest.Server, args ...string) (status int, out, err string) {
	t.Helper()
	p := launch(t, s, args...)
	status = p.status()
	return status, p.out(), p.err()
}

// call runs the program inside this process, for what ends before it starts anything.
func call(args ...string) (status int, out, err string) {
	var o, e bytes.Buffer
	status = dispatch(args, terminal{os.Stdin, &o, &e})
	return status, o.String(), e.String()
}

// sleeper is the start of a script that prints the number of a process in the background.
const sleeper = `sleep 1000 & echo "[$!]"; `

// printed returns the numbers in brackets that a script has printed.
func (p *process) printed() (numbers []int) {
	p.t.Helper()
	for _, field := range strings.FieldsFunc(p.out(), func(r rune) bool { return r == '[' || r == ']' || r == '\n' }) {
		if n, err := strconv.Atoi(field); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// gone reports whether a process has ended. A zombie that nobody has waited for has.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return os.IsNotExist(err) && exists("/proc/self")
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
