package redistest

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestABuildIsWhatItSaysOfItself(t *testing.T) {
	for says, want := range map[string]struct {
		name     string
		can, not []Feature
	}{
		"Redis server v=5.0.14 sha=0:0 malloc=libc bits=64":  {"Redis 5.0.14", nil, []Feature{ACL, MinReplicas, KeyReading}},
		"Redis server v=6.0.20 sha=0:0":                      {"Redis 6.0.20", []Feature{ACL, MinReplicas}, []Feature{ChannelRules}},
		"Redis server v=6.2.16 sha=0:0":                      {"Redis 6.2.16", []Feature{ChannelRules}, []Feature{KeyReading}},
		"Redis server v=8.0.2 sha=0:0":                       {"Redis 8.0.2", []Feature{KeyReading}, nil},
		"Redis server v=255.255.255 sha=0:0":                 {"Redis 255.255.255", []Feature{KeyReading}, nil},
		"Server v=7.2.7 sha=00000000:0 malloc=libc bits=64":  {"Valkey 7.2.7", []Feature{KeyReading, ACL}, nil},
		"Valkey server v=8.0.1 sha=0:0 malloc=libc bits=64":  {"Valkey 8.0.1", []Feature{KeyReading, ACL}, nil},
		"Valkey server v=10.0.0-rc1 sha=0:0 malloc=jemalloc": {"Valkey 10.0.0-rc1", []Feature{KeyReading, ACL}, nil},
	} {
		path := filepath.Join(t.TempDir(), "server")
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho '"+says+"'\n"), 0o700))
		b, err := inspect(path)
		require.NoError(t, err)
		assert.Equal(t, want.name, b.String())
		for _, f := range want.can {
			assert.True(t, b.Has(f), "%v: %s", b, f.What)
		}
		for _, f := range want.not {
			assert.False(t, b.Has(f), "%v: %s", b, f.What)
		}
		assert.False(t, b.Has(TLS), "nothing of it is in the binary")
	}
	for ends, can := range map[string]bool{
		`>>> 'tls-port "1"'\nBad directive or wrong number of arguments`:                       false,
		"# Missing implement of connection type tls\n# Failed finding TLS support.":            false,
		"# No tls-cert-file configured!\n# Failed to configure TLS. Check logs for more info.": true,
	} {
		path := filepath.Join(t.TempDir(), "server")
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n[ $1 = --version ] && echo 'Redis server v=7.4.1' && exit\n"+
			"cat <<end\n"+ends+"\nend\nexit 1\n"), 0o700))
		b, err := inspect(path)
		require.NoError(t, err)
		assert.Equal(t, can, b.Has(TLS), ends)
	}
	for _, path := range []string{"/does/not/exist", "/bin/true"} {
		_, err := inspect(path)
		assert.Error(t, err)
	}
}

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
