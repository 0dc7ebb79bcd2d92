//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package cli

import (
	"os"
	"syscall"
)

// terminalSize does not know it here.
func terminalSize(*os.File) (width, height int) { return 0, 0 }

// dieOf can't do that here.
func dieOf(syscall.Signal) {}
