package main

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// TestMain lets the test binary stand in for the program, so that tests can start real processes.
func TestMain(m *testing.M) {
	if os.Getenv("REDIMUTEX_TEST_MAIN") != "" {
		main()
		return
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
