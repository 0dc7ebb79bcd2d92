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
	"unsafe"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A group is the process group in which the command runs.
type group struct {
	id     int // of the group and of its first process
	states chan syscall.WaitStatus
	tty    int              // the controlling terminal; -1 if there is none
	wants  bool             // the command should have the terminal whenever this process does
	lent   bool             // the command has the terminal now, from this process
	modes  *syscall.Termios // of the terminal when the command first got it; nil before
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
	g := &group{guard: guard, passed: make(map[syscall.Signal]bool), tty: openTerminal(), states: make(chan syscall.WaitStatus, 16)}
	attr := &syscall.SysProcAttr{Setpgid: true}
	g.wants = cli.Foreground(0) >= 0 && cli.Foreground(1) >= 0
	g.lent = g.wants && g.foreground() == syscall.Getpgrp()
	if g.lent {
		g.modes = cli.Modes(uintptr(g.tty))
		attr.Foreground, attr.Ctty = true, g.tty
	}
	if ignores(syscall.SIGTTIN) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTTIN) // the command does not inherit a signal that is caught here
	}
	cmd := &exec.Cmd{
		Path: guard.self, Args: append([]string{j.path}, j.command...), Env: env,
		Stdin: t.In, Stdout: t.Out.Unwrap(), Stderr: t.Err, SysProcAttr: attr,
	}
	err = g.start(cmd)
	// From now on this process may take the terminal back without being stopped. Earlier, the command would have inherited
	// this.
	signal.Ignore(syscall.SIGTTOU)
	if err != nil {
		if g.lent {
			g.setForeground(syscall.Getpgrp())
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
	if s == syscall.SIGCONT && g.wants {
		g.takeTerminal()
	}
	g.passed[s] = true
	g.end(s)
}

// typed reports whether the signal that has ended the command was typed at the keyboard.
func (g *group) typed(s syscall.Signal) bool {
	return (s == syscall.SIGINT || s == syscall.SIGQUIT) && g.lent && g.foreground() == g.id && !g.passed[s]
}

// alive reports whether any process of the group is left.
func (g *group) alive() bool {
	return syscall.Kill(-g.id, 0) != syscall.ESRCH //nolint:errorlint // the bare number
}

// takeTerminal gives the terminal to the group if this process has it. It reports whether the group has it now.
func (g *group) takeTerminal() bool {
	switch g.foreground() {
	case g.id:
		return true
	case syscall.Getpgrp():
		if g.modes == nil {
			g.modes = cli.Modes(uintptr(g.tty))
		}
		g.lent = g.setForeground(g.id)
		return g.lent
	}
	return false
}

// returnTerminal takes the terminal back from the group.
func (g *group) returnTerminal() {
	if g.lent && g.foreground() == g.id {
		g.setForeground(syscall.Getpgrp())
	}
	g.lent = false
}

// restoreModes undoes the terminal settings of the command. After a command that died of a signal the shell does that, but not
// if this process's exit status hides the signal.
func (g *group) restoreModes() {
	if g.lent && g.modes != nil && g.foreground() == g.id {
		cli.SetModes(uintptr(g.tty), g.modes)
	}
}

// release returns the terminal at the end. The rest of the group goes on.
func (g *group) release() {
	g.guard.dismiss()
	g.returnTerminal()
	if g.tty >= 0 {
		syscall.Close(g.tty) //nolint:errcheck // nothing was written
	}
}

func openTerminal() int {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

// foreground returns the group that has the terminal; -1 if there is no terminal.
func (g *group) foreground() int {
	if g.tty < 0 {
		return -1
	}
	return cli.Foreground(uintptr(g.tty))
}

func (g *group) setForeground(id int) bool {
	group := int32(id) //nolint:gosec // a process number
	return cli.Ioctl(uintptr(g.tty), syscall.TIOCSPGRP, unsafe.Pointer(&group))
}

// A guard is a child process of redimutex, in its own group. It kills the group of COMMAND if redimutex dies and can't do so
// itself, as by KILL: nothing would renew the lock any more. The guard notices the death by the end of a pipe. So nested runs
// end from the outside in: a group that is killed contains the redimutex of the next run inside it.
type guard struct {
	self string // the path of this program
	pipe *os.File
}

// guardian declares the verb of the guard process.
func guardian() *cli.Command {
	return &cli.Command{Name: "guard", Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
		if err := cli.NoWords(in); err != nil {
			return 0, err
		}
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
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		self = "/proc/self/exe" // the same program, even if an update has replaced the file
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
	return &guard{self, out}, nil
}

// dismiss ends the guard.
func (g *guard) dismiss() {
	fmt.Fprintln(g.pipe, "is over")
	g.pipe.Close()
}
