//go:build !unix

package redistest

import (
	"errors"
	"net"
)

var errSignals = errors.New("a process can't be stopped and resumed on this system")

// alive can't tell on this system. A server that has ended is waited for in vain, and then reported.
func alive(int) bool { return true }

func Stop(int) error   { return errSignals }
func Resume(int) error { return errSignals }
func halt(int) error   { return errSignals }

func setBacklog(*net.TCPListener, int) error {
	return errors.New("a dial that hangs can't be made on this system")
}
