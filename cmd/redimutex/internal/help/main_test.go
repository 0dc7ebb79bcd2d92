package help

import (
	"testing"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/breaklock"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/demo"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/doctor"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/list"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/run"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/show"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/watch"
)

func allCommands() []*cli.Command {
	return append([]*cli.Command{run.Command(), run.Guard(), show.Command(), list.Command(), watch.Command(), breaklock.Command(), doctor.Command(), demo.Command()}, Commands(allCommands)...)
}

func TestMain(m *testing.M) { clitest.Main(m, allCommands) }
