package redistest

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The system knows whose a port is, so that a second claim of this process fails as that of another does.
func TestNobodyElseIsGivenThePortOfAServerThatIsDown(t *testing.T) {
	if !Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH: only those can be down and come back")
	}
	var port int
	claimed := func() bool {
		c := claimPort(port)
		defer c.release()
		return c == nil
	}
	t.Run("the test of the server", func(t *testing.T) {
		s := Builds()[0].Start(t, "--maxmemory", "1mb") // a server that no other test gets
		_, number, err := net.SplitHostPort(s.Addr())
		require.NoError(t, err)
		port, err = strconv.Atoi(number)
		require.NoError(t, err)
		s.Kill()
		assert.True(t, claimed())
		s.Restart()
	})
	assert.False(t, claimed(), "it is free after the test")
}
