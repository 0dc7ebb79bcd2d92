//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A guard is a child process of redimutex, in its own group. It kills the group of COMMAND if redimutex dies and can't do so
// itself, as by KILL: nothing would renew the lock any more. The guard notices the death by the end of a pipe. So nested runs
// end from the outside in: a group that is killed contains the redimutex of the next run inside it.
type guard struct{ pipe *os.File }

// guardian declares the verb of the guard process.
func guardian() *cli.Command {
	return &cli.Command{Name: "guard", Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
		signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
		text, err := io.ReadAll(t.In)
		// Without a number no command was started. With more text behind the number, everything ended in order.
		if id, wrong := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && wrong == nil && id > 1 {
			syscall.Kill(-id, syscall.SIGKILL) //nolint:errcheck // it may have ended
		}
		return cli.OK, nil
	}}
}

func startGuard() (*guard, error) {
	path, err := self()
	if err != nil {
		return nil, err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	c := exec.Cmd{Path: path, Args: []string{"redimutex", "guard"}, Stdin: in, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if err := c.Start(); err != nil {
		out.Close()
		return nil, err
	}
	return &guard{out}, nil
}

// dismiss ends the guard.
func (g *guard) dismiss() {
	fmt.Fprintln(g.pipe, "is over")
	g.pipe.Close()
}
