package run

import (
	"runtime"
	"syscall"
)

// tether has the kernel kill the command when we are killed by KILL and can't do it ourselves: nobody
// would renew the lock any more. It reaches the command alone, not the children that it has started.
// The kernel takes the death of the thread that started the command for ours, so that thread stays
// with this goroutine, which is the one that waits for the command.
func tether(attr *syscall.SysProcAttr) {
	runtime.LockOSThread()
	attr.Pdeathsig = syscall.SIGKILL
}
