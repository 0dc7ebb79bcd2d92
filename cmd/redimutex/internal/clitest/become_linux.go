package clitest

import (
	"os"
	"syscall"
)

// become makes this process adopt the orphans of its descendants, as PID 1 of a container does, if the environment asks for
// it.
func become() {
	const setChildSubreaper = 36
	if os.Getenv("REDIMUTEX_TEST_REAPER") != "" {
		syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0) //nolint:errcheck // the test sees whether it works
		os.Unsetenv("REDIMUTEX_TEST_REAPER")                           //nolint:errcheck // the request is only for this process
	}
}
