package redistest

import (
	"net"
	"strings"
	"testing"
)

// Failover has the replica and its primary change places, as an operator does who loses nothing: the
// primary lets writes wait until the replica has caught up. It returns when both are in step again. It
// skips the test where the server does not know the command.
func Failover(t testing.TB, primary, replica *Server) {
	t.Helper()
	host, port, _ := net.SplitHostPort(replica.addr)
	switch _, err := primary.ask("FAILOVER", "TO", host, port); {
	case err != nil && strings.Contains(err.Error(), "unknown command"):
		t.Skip("needs FAILOVER, which came with Redis 6.2")
	case err != nil:
		t.Fatal(err)
	}
	Wait(t, "the replica is the primary of the other", func() bool {
		return replica.Role() == "master" && primary.Role() == "slave" && replica.Online() == 1
	})
}
