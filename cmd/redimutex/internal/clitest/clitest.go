// Package clitest has what the tests of the verbs share: the verb as a process, in a terminal, or called
// inside the test.
package clitest

import (
	"bytes"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/internal/redistest"
)

var commands func() []*cli.Command

// Main runs the tests of a package. The test binary also stands in for a program with these commands, so
// that tests can start real processes.
func Main(m *testing.M, all func() []*cli.Command) {
	commands = all
	program := redistest.Role{Variable: "REDIMUTEX_TEST_MAIN", Run: func(string) int {
		become()
		cli.Main(commands(), &cli.Terminal{In: os.Stdin, Out: cli.NewOutput(os.Stdout), Err: os.Stderr})
		return 0
	}}
	if os.Getenv(program.Variable) == "" {
		catchSignals()
	}
	redistest.Main(m, program)
}

// catchSignals makes sure that signals are at their default in the processes that we start. The tests may run
// under nohup, or as a shell's background job. A signal that is caught here is at its default there, and one that
// is ignored would be ignored.
func catchSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// Call runs the program inside this process, for what ends before it starts anything.
func Call(args ...string) (status int, out, err string) {
	var o, e bytes.Buffer
	status = cli.Dispatch(commands(), args, &cli.Terminal{In: os.Stdin, Out: cli.NewOutput(&o), Err: &e})
	return status, o.String(), e.String()
}
