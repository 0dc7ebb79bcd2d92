//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package watch

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// suspensions tells that a user has typed Ctrl-Z.
func (s *screen) suspensions() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTSTP)
	return c
}

// suspend gives the screen back and stops, until the shell continues us.
func (s *screen) suspend() {
	s.leave()
	cli.StopUs(func() {})
}

// eachKey sets the terminal so that it hands over each key at once, and shows none. It returns what sets
// it back, or nil if it can't be set, or is not ours because we are in the background.
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
