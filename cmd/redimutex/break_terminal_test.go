//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// operator is somebody who starts the program in a new terminal, without a shell.
func operator(t *testing.T, s *redistest.Server, args string) *typist {
	t.Helper()
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("needs script(1), which makes the terminal")
	}
	p := prepare(t, s)
	c := exec.Command("script", "-qec", fmt.Sprintf("exec %q %s", p.cmd.Path, args), os.DevNull)
	c.Env, c.Stdout, c.Stderr, c.SysProcAttr = p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr
	keys, err := c.StdinPipe()
	require.NoError(t, err)
	p.cmd = c
	p.start()
	return &typist{p, keys}
}

func TestBreakAsksAndTakesOnlyYesForIt(t *testing.T) {
	s := redistest.Start(t)
	token := uuid.NewString() + " web-1"
	s.Do("SET", "job", token, "PX", 600000)
	for _, c := range []struct {
		answer string
		status int
	}{{"n\n", 1}, {"\n", 1}, {"yy\n", 1}, {"\x04", 1}, {ctrlC, 130}, {"YES\n", 0}} {
		assert.Equal(t, token, s.Get("job"))
		y := operator(t, s, "break job")
		y.says("[y/N]")
		assert.Contains(t, y.out(), "job: held by web-1, age unknown")
		y.types(c.answer)
		assert.Equal(t, c.status, y.status(), "%q", c.answer)
		switch c.status {
		case 0:
			assert.Contains(t, y.out(), "The lock is broken.")
		case 1:
			assert.Contains(t, y.out(), "Nothing was broken.")
		}
	}
	assert.Empty(t, s.Get("job"))
}

func TestLockThatChangesHandsBeforeTheYesIsNotBroken(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "job", uuid.NewString()+" web-1", "PX", 600000)
	y := operator(t, s, "break -json job")
	y.says("[y/N]")
	second := uuid.NewString() + " web-2"
	s.Do("SET", "job", second, "PX", 600000)
	y.types("y\n")
	assert.Equal(t, 1, y.status())
	assert.Contains(t, y.out(), `"result":"changed"`)
	assert.Equal(t, second, s.Get("job"))
	assert.Equal(t, 1, strings.Count(y.out(), "[y/N]"))
}
