//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// fullPipe returns the end of a pipe to which nothing can be written any more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	require.NoError(t, syscall.Pipe(ends[:]))
	require.NoError(t, syscall.SetNonblock(ends[1], true))
	for chunk := make([]byte, 4096); ; {
		if n, err := syscall.Write(ends[1], chunk); n <= 0 || err != nil {
			break
		}
	}
	for chunk := make([]byte, 1); ; {
		if n, err := syscall.Write(ends[1], chunk); n <= 0 || err != nil {
			break
		}
	}
	require.NoError(t, syscall.SetNonblock(ends[1], false))
	reader, writer := os.NewFile(uintptr(ends[0]), "reader"), os.NewFile(uintptr(ends[1]), "writer")
	t.Cleanup(func() { reader.Close(); writer.Close() })
	return writer
}

func TestUnreachableServerIsToldAtOnce(t *testing.T) {
	addr := redistest.FreeAddr(t)
	socket := t.TempDir() + "/no.socket"
	for url, shown := range map[string]string{
		"redis://someone:hunter2@" + addr: addr,
		"unix://:hunter2@" + socket:       socket,
	} {
		for _, args := range [][]string{
			{"run", "-redis", url, "job", "--", "echo", "ran"},
			{"run", "-n", "-redis", url, "job", "--", "echo", "ran"},
			{"run", "-w", "60", "-redis", url, "job", "--", "echo", "ran"},
			{"show", "-redis", url, "job"},
		} {
			status, out, stderr := run(t, nil, args...)
			assert.Equal(t, exitUnavailable, status)
			assert.Empty(t, out)
			assert.Contains(t, stderr, shown)
			assert.NotContains(t, stderr, "hunter2")
			assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		}
	}
}

func TestHungServerDoesNotHoldUsForEver(t *testing.T) {
	s := redistest.Real(t)
	s.Pause()
	defer s.Resume()
	status, _, stderr := run(t, s, "run", "job", "--", "true")
	assert.Equal(t, exitUnavailable, status)
	assert.Contains(t, stderr, s.Addr()+": no answer")
}

func TestServerThatRefusesIsQuoted(t *testing.T) {
	s := redistest.Real(t)
	s.Do("HSET", "job", "field", "value")
	status, _, stderr := run(t, s, "run", "job", "--", "true")
	assert.Equal(t, exitUnavailable, status)
	assert.Contains(t, stderr, "WRONGTYPE")

	s.Do("ACL", "SETUSER", "reader", "on", ">hunter2", "~*", "+get", "+pttl", "+ping")
	p := prepare(t, nil, "run", "other", "--", "true")
	p.cmd.Env = append(p.cmd.Env, "REDIMUTEX_URL=redis://reader:hunter2@"+s.Addr())
	p.start()
	assert.Equal(t, exitUnavailable, p.status())
	assert.Contains(t, p.notes(), "NOPERM")
	status, _, stderr = run(t, nil, "show", "-redis", "redis://reader:hunter2@"+s.Addr(), "other")
	assert.Equal(t, exitFree, status, stderr)

	s.Do("CONFIG", "SET", "requirepass", "hunter2")
	status, _, stderr = run(t, s, "run", "other", "--", "true")
	assert.Equal(t, exitUnavailable, status)
	assert.Contains(t, stderr, "NOAUTH")
	assert.Contains(t, stderr, "redis://user:password@host")
	status, _, stderr = run(t, nil, "run", "-redis", "redis://:wrong-hunter@"+s.Addr(), "other", "--", "true")
	assert.Equal(t, exitUnavailable, status)
	assert.Contains(t, stderr, "WRONGPASS")
	assert.NotContains(t, stderr, "hunter")
}

func TestServerThatFailsWhileWeWaitIsTriedAgain(t *testing.T) {
	s := redistest.Real(t)
	s.Do("SET", "job", "somebody else")
	p := launch(t, s, "run", "job", "--", "echo", "ran")
	p.warns("waiting for")
	s.Kill()
	p.warns("still waiting")
	s.Restart()
	assert.Equal(t, 0, p.status())
	assert.Equal(t, "ran\n", p.out())
	assert.Equal(t, 2, strings.Count(p.notes(), "\n"), "one line for the holder, one for the failure: %s", p.notes())
	assert.Contains(t, p.notes(), s.Addr())
}

func TestServerThatFailsUntilTheWaitIsOver(t *testing.T) {
	s := redistest.Real(t)
	s.Do("SET", "job", "somebody else")
	p := launch(t, s, "run", "-w", "3", "job", "--", "echo", "ran")
	p.warns("waiting for")
	s.Kill()
	assert.Equal(t, exitUnavailable, p.status())
	assert.Empty(t, p.out())
}
