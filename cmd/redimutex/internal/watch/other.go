//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package watch

import "os"

func suspensions() <-chan os.Signal { return nil }
func stopUs()                       {}

// eachKey returns nil: the terminal can't be set on this system.
func eachKey(*os.File) (back func()) { return nil }
