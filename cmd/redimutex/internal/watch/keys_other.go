//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package watch

import "os"

// eachKey can't do that here.
func eachKey(*os.File) (back func()) { return nil }
