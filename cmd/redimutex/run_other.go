//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package main

import "fmt"

// run says that it can't: without process groups and signals a command could not be ended in time
// when its lock is lost.
func (j *job) run(t terminal) int {
	fmt.Fprintln(t.err, "redimutex: run needs process groups and signals as Unix has them; it does not work on this system")
	return exitFailure
}
