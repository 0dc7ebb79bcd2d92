package run

import (
	"testing"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/locks"
)

func TestMain(m *testing.M) {
	clitest.Main(m, func() []*cli.Command { return append(Commands(), locks.Show()) })
}
