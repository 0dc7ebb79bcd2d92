//go:build unix

package redistest

import "syscall"

// alive reports whether a process is there.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// stop halts a process in its tracks, resume lets it go on.
func stop(pid int) error   { return syscall.Kill(pid, syscall.SIGSTOP) }
func resume(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
