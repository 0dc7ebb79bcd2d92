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
)

var commands func() []*cli.Command

// Main runs the tests of a package. The test binary also stands in for a program with these commands, so
// that tests can start real processes.
func Main(m *testing.M, all func() []*cli.Command) {
	commands = all
	if os.Getenv("REDIMUTEX_TEST_MAIN") != "" {
		become()
		os.Exit(cli.Dispatch(commands(), os.Args[1:], &cli.Terminal{In: os.Stdin, Out: cli.NewOutput(os.Stdout), Err: os.Stderr}))
	}
	// The tests may run under nohup, or as a shell's background job. A signal that is caught here is at
	// its default in the processes that we start, and one that is ignored would be ignored there.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(m.Run())
}

// Call runs the program inside this process, for what ends before it starts anything.
func Call(args ...string) (status int, out, err string) {
	var o, e bytes.Buffer
	status = cli.Dispatch(commands(), args, &cli.Terminal{In: os.Stdin, Out: cli.NewOutput(&o), Err: &e})
	return status, o.String(), e.String()
}
