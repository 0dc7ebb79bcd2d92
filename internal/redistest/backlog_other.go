//go:build !unix

package redistest

import (
	"errors"
	"net"
)

func setBacklog(*net.TCPListener, int) error {
	return errors.New("a dial that hangs can't be made on this system")
}
