package redisurl_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redisurl"
)

func TestAURLIsTakenApart(t *testing.T) {
	for raw, want := range map[string]struct{ where, says string }{
		"redis://host":                         {"tcp host:6379", ""},
		"redis://u:p@host:1/2":                 {"tcp host:1", "AUTH u p SELECT 2"},
		"rediss://:p@[::1]":                    {"tcp [::1]:6379", "TLS"},
		"unix://u:p@/run/with%20space?db=3":    {"unix /run/with space", "AUTH u p SELECT 3"},
		"redis://:%40%3A%2F%23%3F@host.domain": {"tcp host.domain:6379", "AUTH @:/#?"},
	} {
		got, err := redisurl.Parse(raw)
		require.NoError(t, err, raw)
		assert.Equal(t, want.where, got.Network+" "+got.Address, raw)
		assert.Equal(t, want.says, says(t, got), raw)
	}
}

// says returns what a connection to the target begins with.
func says(t *testing.T, target *redisurl.Target) (words string) {
	ours, theirs := net.Pipe()
	var said []string
	var peer sync.WaitGroup
	peer.Go(func() {
		defer theirs.Close()
		buffer := make([]byte, 1000)
		for {
			n, err := theirs.Read(buffer)
			if err != nil {
				return
			}
			if buffer[0] == 0x16 { // a handshake
				said = append(said, "TLS")
				return
			}
			for _, line := range strings.Fields(string(buffer[:n])) {
				if !strings.ContainsAny(line[:1], "*$") {
					said = append(said, line)
				}
			}
			fmt.Fprint(theirs, "+OK\r\n")
		}
	})
	dial := redis.DialNetDial(func(string, string) (net.Conn, error) { return ours, nil })
	if c, err := redis.Dial(target.Network, target.Address, append(target.Options, dial)...); err == nil {
		require.NoError(t, c.Close())
	}
	peer.Wait()
	return strings.Join(said, " ")
}

func TestATargetDoesNotShowItsPassword(t *testing.T) {
	target, err := redisurl.Parse("redis://user:s3cr3t@host")
	require.NoError(t, err)
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %v %+v %#v", target, target, target, *target, *target, *target), "s3cr3t")
}

func TestAnErrorTellsWhatIsWrongWithAURLThatHasNoPassword(t *testing.T) {
	for raw, want := range map[string]string{
		"localhost:6379": "does not begin with redis://", "redis:/localhost": "does not begin with redis://",
		`"redis://localhost"`: "does not begin with redis://", "http://localhost": "does not begin with redis://",
		"redis://user@localhost": "write :password or user:password", "redis://:s3cr:t@w/ord@localhost": "percent-encoded",
		"redis://localhost:notaport": "its port is not valid", "redis://[::1": "its port is not valid",
		"redis://localhost:notaport/p@ss": "percent-encoded", "redis://localhost:65536": "not a number from 1 to 65535",
	} {
		_, err := redisurl.Parse(raw)
		assert.ErrorContains(t, err, want, raw)
	}
}
