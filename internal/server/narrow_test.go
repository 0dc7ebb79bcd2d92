package server_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// What scripts reply to clients on 32-bit systems arrives as on all others.
func TestNarrowRepliesArriveWhole(t *testing.T) {
	c := redistest.Start(t).Pool().Get()
	defer c.Close()
	for body, want := range map[string]any{
		"return 1764000000000001\n":                    int64(1764000000000001),
		"return -1764000000000001\n":                   int64(-1764000000000001),
		"return 2147483648\n":                          int64(2147483648),
		"return -1\n":                                  int64(-1),
		"return {1764000000000001, 7}\n":               []any{int64(1764000000000001), int64(7)},
		"return {'1764000000000001', -1, 0}\n":         []any{[]byte("1764000000000001"), int64(-1), int64(0)},
		"local x = redis.call('GET', 'x')\nreturn x\n": nil,
	} {
		reply, err := c.Do("EVAL", server.Narrowed(body), 0)
		require.NoError(t, err, body)
		assert.Equal(t, want, server.Widen(reply), body)
	}
	_, err := c.Do("EVAL", server.Narrowed("return redis.error_reply('GUARD no')\n"), 0)
	assert.EqualError(t, err, "GUARD no")
}
