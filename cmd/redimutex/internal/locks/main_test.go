package locks

import (
	"testing"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
)

func TestMain(m *testing.M) {
	clitest.Main(m, func() []*cli.Command { return []*cli.Command{List(), Show(), Break()} })
}
