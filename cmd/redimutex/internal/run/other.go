//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package run

import "github.com/redimutex/redimutex/cmd/redimutex/internal/cli"

// run reports that it is not supported: without process groups and signals a command could not be ended in time when its lock
// is lost.
func (j *job) run(t *cli.Terminal) (int, error) {
	t.Warn("run needs process groups and signals as Unix has them; it does not work on this system")
	return cli.Failure, nil
}

// Commands are only the verb run: it starts no processes on this system.
func Commands() []*cli.Command { return []*cli.Command{command()} }
