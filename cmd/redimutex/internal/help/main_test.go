package help

import (
	"slices"
	"testing"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/demo"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/doctor"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/locks"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/run"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/watch"
)

func allCommands() []*cli.Command {
	return slices.Concat(run.Commands(), []*cli.Command{locks.Show(), locks.List(), watch.Command(), locks.Break(), doctor.Command(), demo.Command(), demo.Worker()}, Commands(allCommands))
}

func TestMain(m *testing.M) { clitest.Main(m, allCommands) }
