//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A group is the process group in which the command runs.
type group struct {
	id     int // of the group and of its first process
	states chan syscall.WaitStatus
	tty    *tty
	guard  *guard
	passed map[syscall.Signal]bool // the signals that were passed on
}

// startGroup starts the command in its own group. If this process has the terminal, the group gets it, so that the command can
// read, and Ctrl-C reaches it. In the middle of a pipeline that would take the terminal away from the other processes. So
// there the group gets it only when the command reads.
func startGroup(j *job, t *cli.Terminal, env []string) (*group, error) {
	guard, err := startGuard()
	if err != nil {
		return nil, fmt.Errorf("no guard can be started for it: %w", err)
	}
	g := &group{guard: guard, passed: make(map[syscall.Signal]bool), tty: openTTY(), states: make(chan syscall.WaitStatus, 16)}
	attr := &syscall.SysProcAttr{Setpgid: true}
	g.tty.lendAtStart(attr)
	if ignores(syscall.SIGTTIN) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTTIN) // the command does not inherit a signal that is caught here
	}
	cmd := &exec.Cmd{
		Args: append([]string{j.path}, j.command...), Env: env,
		Stdin: t.In, Stdout: t.Out.Unwrap(), Stderr: t.Err, SysProcAttr: attr,
	}
	err = g.start(cmd)
	// From now on this process may take the terminal back without being stopped. Earlier, the command would have inherited
	// this.
	signal.Ignore(syscall.SIGTTOU)
	if err != nil {
		if g.tty.lent {
			g.tty.setForeground(syscall.Getpgrp())
		}
		g.release()
		return nil, err
	}
	go g.wait()
	return g, nil
}

// ignores reports whether this process was started with the signal ignored, which the Go runtime does not say about TTIN. A
// shell with job control ignores TTIN in $( ). Then a read from the terminal fails, and does not stop the command until it
// gets the terminal.
func ignores(s syscall.Signal) bool {
	status, _ := os.ReadFile("/proc/self/status") // without this file, assume that it is not ignored
	_, set, _ := strings.Cut(string(status), "\nSigIgn:\t")
	set, _, _ = strings.Cut(set, "\n")
	mask, _ := strconv.ParseUint(set, 16, 64)
	return mask>>(s-1)&1 == 1
}

// wait reports when the first process is stopped, and when it has ended. It replaces exec.Cmd.Wait, which does not report a
// stop. It waits for all children of this process: PID 1 of a container inherits orphans, which would otherwise stay zombies.
func (g *group) wait() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR: //nolint:errorlint // the bare number
		case err != nil:
			return // there are no more children
		case pid == g.id:
			g.states <- status
		}
	}
}

// end sends a signal to the whole group. A stopped process must be continued so that it can handle the signal.
func (g *group) end(s syscall.Signal) {
	syscall.Kill(-g.id, s) //nolint:errcheck // the group may have ended
	if s == syscall.SIGTERM {
		syscall.Kill(-g.id, syscall.SIGCONT) //nolint:errcheck // likewise
	}
}

// pass passes a signal on to the group. A shell that continues this process may have put it into the foreground again.
func (g *group) pass(s syscall.Signal) {
	if s == syscall.SIGCONT && g.tty.wants {
		g.tty.lend(g.id)
	}
	g.passed[s] = true
	g.end(s)
}

// typed reports whether the signal that has ended the command was typed at the keyboard.
func (g *group) typed(s syscall.Signal) bool {
	return (s == syscall.SIGINT || s == syscall.SIGQUIT) && g.tty.lentTo(g.id) && !g.passed[s]
}

// alive reports whether any process of the group is left.
func (g *group) alive() bool {
	return syscall.Kill(-g.id, 0) != syscall.ESRCH //nolint:errorlint // the bare number
}

// release returns the terminal at the end. The rest of the group goes on.
func (g *group) release() {
	g.guard.dismiss()
	g.tty.takeBack(g.id)
	g.tty.close()
}
