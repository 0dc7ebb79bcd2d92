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
	path := filepath.Join(t.TempDir(), "server")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho 'Redis server v=7.0.15'\n"+
		"[ \"$1\" = --version ] || echo \">>> '${1#--} \\\"$2\\\"' Bad directive\" >&2\n# tls-auth-clients\n"), 0o700))
	b, err := inspect(path)
	require.NoError(t, err)
	assert.False(t, b.Has(TLS), "the name is in it, and the setting is unknown")
	if Installed() {
		assert.True(t, Builds()[0].knows("appendonly", "no"))
		assert.False(t, Builds()[0].knows("no-such-thing", "no"))
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
