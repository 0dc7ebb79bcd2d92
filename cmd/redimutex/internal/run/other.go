//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package run

import (
	"fmt"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// run says that it can't: without process groups and signals a command could not be ended in time
// when its lock is lost.
func (j *job) run(t *cli.Terminal) (int, error) {
	fmt.Fprintln(t.Err, "redimutex: run needs process groups and signals as Unix has them; it does not work on this system")
	return cli.Failure, nil
}

// Starter declares a verb that is not needed here.
func Starter() *cli.Command {
	return &cli.Command{Name: "start", Run: func(_ *cli.Terminal, in *cli.Input) (int, error) { return cli.OK, cli.NoWords(in) }}
}

// Guard declares a verb that is not needed here.
func Guard() *cli.Command {
	return &cli.Command{Name: "guard", Run: func(_ *cli.Terminal, in *cli.Input) (int, error) { return cli.OK, cli.NoWords(in) }}
}
