package crew

import "syscall"

// leashed has the system kill a worker when the one that has started it ends: one that is stopped can't end itself.
func leashed() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
