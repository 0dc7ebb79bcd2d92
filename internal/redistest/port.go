package redistest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// A claim keeps a port from all tests of this machine but one. Between the look at a port and the start of a
// server on it, and while a server is down, no server listens there: a server of another process could come up, and
// two tests would take it for theirs. So the caller that wants a port has its number in UDP too, which no other caller uses.
// The system ends the claim with the process.
type claim struct{ udp net.PacketConn }

// claimPort returns nil if a server listens on the port, or claims it. A nil claim can be released.
func claimPort(port int) *claim {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil
	}
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		udp.Close()
		return nil
	}
	tcp.Close()
	return &claim{udp}
}

func (c *claim) release() {
	if c != nil {
		c.udp.Close()
	}
}

// claimAddr returns a loopback address that no server listens on, and the claim to it. Its port is below those that
// the system gives to outgoing connections: else, while a server is down, a client that dials it could be given
// its port, and be connected to itself.
func claimAddr(t testing.TB) (string, *claim) {
	t.Helper()
	for range 100 {
		port := 10000 + rand.N(12000)
		if c := claimPort(port); c != nil {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), c
		}
	}
	t.Fatal("no free port in 100 tries")
	return "", nil
}

// FreeAddr returns a loopback address that no server listens on, and no other test is given before this one ends.
func FreeAddr(t testing.TB) string {
	t.Helper()
	addr, c := claimAddr(t)
	t.Cleanup(c.release)
	return addr
}
