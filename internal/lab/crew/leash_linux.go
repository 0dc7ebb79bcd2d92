package crew

import "syscall"

// leashed makes the system kill a worker when the process that started it ends: a stopped worker can't end itself.
func leashed() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
