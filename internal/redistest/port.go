package redistest

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// A claim reserves a port for one test of this machine. Between the look at a port and the start of a server on it, and while
// a server is down, no server listens there. A server of another process could then come up, and two tests would take it for
// their own. So a test that wants a port also binds the UDP port with the same number, which nothing else uses. The system
// ends the claim when the process ends.
type claim struct{ udp net.PacketConn }

// claimPort claims a port, or returns nil if it is claimed or a server listens on it. A nil claim can be released.
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

// claimAddr returns a loopback address that no server listens on, and the claim to it. Its port is below those that the system
// gives to outgoing connections. Otherwise a client that dials a server that is down could get the same port for itself, and
// be connected to itself.
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

// Socket returns the path for a unix socket. That of t.TempDir may be too long for one, and for what CLIENT INFO shows of it.
func Socket(t testing.TB) string {
	t.Helper()
	parent := os.TempDir()
	if len(parent) > 55 {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// FreeAddr returns a loopback address that no server listens on, and that no other test gets before this one ends.
func FreeAddr(t testing.TB) string {
	t.Helper()
	addr, c := claimAddr(t)
	t.Cleanup(c.release)
	return addr
}
