//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// self returns the path of this program.
func self() (string, error) {
	const exe = "/proc/self/exe" // the same program, even if an update has replaced the file
	if _, err := os.Stat(exe); err == nil {
		return exe, nil
	}
	return os.Executable()
}

// start starts the process that becomes the command. It returns when the command runs, or why it does not.
func (g *group) start(cmd *exec.Cmd) error {
	path, err := self()
	if err != nil {
		return err
	}
	cmd.Path = path
	failure, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer failure.Close()
	// A duplicated descriptor is inherited. Its number is free in the new process too: the command may expect inherited files
	// at other numbers, such as the 3 of a shell's 3>FILE.
	toGuard, err := syscall.Dup(int(g.guard.pipe.Fd()))
	toUs, err2 := syscall.Dup(int(out.Fd()))
	out.Close()
	if err = errors.Join(err, err2); err == nil {
		cmd.Args = slices.Concat([]string{"redimutex", "start", "--", strconv.Itoa(toGuard), strconv.Itoa(toUs)}, cmd.Args)
		err = cmd.Start()
	}
	syscall.Close(toGuard) //nolint:errcheck // nothing was written
	syscall.Close(toUs)    //nolint:errcheck // likewise
	if err != nil {
		return err
	}
	g.id = cmd.Process.Pid
	text, _ := io.ReadAll(failure) // ends when the command runs
	if number, wrong := strconv.Atoi(string(text)); wrong == nil {
		cmd.Wait() //nolint:errcheck // it has failed
		return syscall.Errno(number)
	}
	return nil
}

// starter declares the verb of the process that becomes the command. It first tells the guard its group. Only then it runs the
// command, so there is no moment in which the command would outlive redimutex.
func starter() *cli.Command {
	return &cli.Command{Name: "start", Args: "GUARD FAILURE PATH COMMAND [ARGUMENTS]", Run: func(_ *cli.Terminal, in *cli.Input) (int, error) {
		if len(in.Words) < 4 {
			return 0, errors.New("it is for redimutex run alone")
		}
		// A key typed in this moment is lost. Go would print its stacks, or stop where no shell continues it.
		cli.Catch(make(chan os.Signal, 1), syscall.SIGQUIT, syscall.SIGTSTP)
		guard, failure := inherited(in.Words[0]), inherited(in.Words[1])
		fmt.Fprintln(guard, os.Getpid())
		path, args := in.Words[2], in.Words[3:]
		err := syscall.Exec(path, args, os.Environ())
		if err == syscall.ENOEXEC && isText(path) { //nolint:errorlint // the bare number; execvp(3) does the same
			err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", path}, args[1:]...), os.Environ())
		}
		var number syscall.Errno
		errors.As(err, &number)
		fmt.Fprint(failure, int(number))
		return cli.CannotRun, nil
	}}
}

// inherited returns the open file with that number. The command does not inherit it.
func inherited(number string) *os.File {
	fd, err := strconv.Atoi(number)
	if err != nil {
		return nil
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "inherited")
}

// isText reports whether a file begins as a script does, without a zero byte. A program for another machine contains zero
// bytes: the kernel refuses it with the same error, and a shell must not try to read it.
func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, 128)
	n, _ := f.Read(start)
	return bytes.IndexByte(start[:n], 0) < 0
}
