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

// A guard is a process of ours, in a group of its own, that kills the group of COMMAND when we die and can't do it
// ourselves, as by KILL: nothing would renew the lock any more. It hears of our death by the end of a pipe. So
// nested runs end from the outside in: a group that is killed has the redimutex of the next one in it.
type guard struct{ pipe *os.File }

// Guard declares the verb of that process.
func Guard() *cli.Command {
	return &cli.Command{Name: "guard", Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
		if err := cli.NoWords(in); err != nil {
			return 0, err
		}
		signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
		text, err := io.ReadAll(t.In)
		// Without a number no command has been started, and with more behind it all was ended in order.
		if id, wrong := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && wrong == nil && id > 1 {
			syscall.Kill(-id, syscall.SIGKILL) //nolint:errcheck // it may have ended
		}
		return cli.OK, nil
	}}
}

func startGuard() (*guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		self = "/proc/self/exe" // the same program, though an update may have replaced the file
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	c := exec.Cmd{Path: self, Args: []string{"redimutex", "guard"}, Stdin: in, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if err := c.Start(); err != nil {
		out.Close()
		return nil, err
	}
	return &guard{out}, nil
}

// watch has the group killed if we die from now on.
func (g *guard) watch(group int) { fmt.Fprintln(g.pipe, group) }

// dismiss ends the guard.
func (g *guard) dismiss() {
	fmt.Fprintln(g.pipe, "is over")
	g.pipe.Close()
}
