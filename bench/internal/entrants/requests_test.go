package entrants_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/bench/internal/entrants"
)

// Each command is counted, whatever its arguments contain, and however the stream is cut into packets.
func TestEveryCommandOnTheWireCountsOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			io.Copy(io.Discard, c)
		}
	}()
	var r entrants.Requests
	conn, err := r.Dial(context.Background(), "tcp", l.Addr().String())
	require.NoError(t, err)
	c := redis.NewConn(conn, 0, 0)
	defer c.Close()
	require.NoError(t, c.Send("PING"))
	require.NoError(t, c.Send("SET", "key", "*3\r\n$3\r\nSET\r\n", "NX"))
	require.NoError(t, c.Send("SET", "empty", ""))
	require.NoError(t, c.Flush())
	assert.EqualValues(t, 3, r.Count())

	for _, b := range []byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n") {
		_, err := conn.Write([]byte{b})
		require.NoError(t, err)
	}
	assert.EqualValues(t, 5, r.Count())
}
