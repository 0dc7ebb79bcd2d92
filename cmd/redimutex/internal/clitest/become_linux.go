package clitest

import (
	"os"
	"syscall"
)

// become makes this process one that orphans of its descendants go to, as those of a container go to
// PID 1, if that is asked for.
func become() {
	const setChildSubreaper = 36
	if os.Getenv("REDIMUTEX_TEST_REAPER") != "" {
		syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0) //nolint:errcheck // the test sees whether it works
		os.Unsetenv("REDIMUTEX_TEST_REAPER")                           //nolint:errcheck // it is asked of us alone
	}
}
