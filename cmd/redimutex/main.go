// Redimutex is the command line of the lock: flock(1) across machines, and verbs that show who holds which lock.
package main

import (
	"slices"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/demo"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/doctor"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/help"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/locks"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/run"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/watch"
)

func commands() []*cli.Command {
	return slices.Concat(run.Commands(), []*cli.Command{
		locks.List(), locks.Show(), watch.Command(), locks.Break(), doctor.Command(), demo.Command(), demo.Worker(),
	}, help.Commands(commands))
}

func main() { cli.Main(commands()) }
