package breaklock

import (
	"testing"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/run"
)

func TestMain(m *testing.M) {
	clitest.Main(m, func() []*cli.Command { return []*cli.Command{Command(), run.Command(), run.Guard()} })
}
