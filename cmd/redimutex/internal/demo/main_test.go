package demo

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
)

func TestMain(m *testing.M) {
	if strconv.IntSize == 32 {
		fmt.Println("skipped: the embedded server does not work on systems of 32 bits")
		return
	}
	clitest.Main(m, func() []*cli.Command { return []*cli.Command{Command(), Worker()} })
}
