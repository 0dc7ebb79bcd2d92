//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package watch

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// suspensions returns a channel that reports that the user has typed Ctrl-Z.
func suspensions() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTSTP)
	return c
}

// stopUs stops this process, until the shell continues it.
func stopUs() { cli.StopUs(func() {}) }

// eachKey makes the terminal deliver each key at once, and show none. It returns the function that undoes this. It returns nil
// if the terminal can't be set, or if this process is in the background and does not have it.
func eachKey(f *os.File) (back func()) {
	if cli.Foreground(f.Fd()) != syscall.Getpgrp() {
		return nil
	}
	was := cli.Modes(f.Fd())
	if was == nil {
		return nil
	}
	is := *was
	is.Lflag &^= syscall.ICANON | syscall.ECHO
	is.Cc[syscall.VMIN], is.Cc[syscall.VTIME] = 1, 0
	if !cli.SetModes(f.Fd(), &is) {
		return nil
	}
	return func() { cli.SetModes(f.Fd(), was) }
}
