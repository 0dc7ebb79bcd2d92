package main

import (
	"os"
	"testing"
)

// TestMain lets the test binary stand in for the program, so that tests can start real processes.
func TestMain(m *testing.M) {
	if os.Getenv("REDIMUTEX_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}
