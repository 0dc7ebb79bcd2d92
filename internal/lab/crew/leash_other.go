//go:build !linux

package crew

import "syscall"

// leashed does nothing here: workers end when there are no more orders.
func leashed() *syscall.SysProcAttr { return nil }
