//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package cli

import (
	"os"
	"syscall"
)

// terminalSize returns zeros: the size is unknown on this system.
func terminalSize(*os.File) (width, height int) { return 0, 0 }

// dieOf does nothing: a process can't die of a chosen signal on this system.
func dieOf(syscall.Signal) {}
