//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package watch

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// suspensions tells that somebody has typed Ctrl-Z.
func (s *screen) suspensions() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTSTP)
	return c
}

// suspend gives the screen back and stops, until the shell continues us.
func (s *screen) suspend() {
	s.leave()
	cli.StopUs()
}
