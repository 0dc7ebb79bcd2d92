package redisurl_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redisurl"
)

func TestAURLIsTakenApart(t *testing.T) {
	for raw, want := range map[string]struct {
		where, user string
		db          int
		tls         bool
	}{
		"redis://host":                         {where: "tcp host:6379"},
		"redis://u:p@host:1/2":                 {where: "tcp host:1", user: "u", db: 2},
		"rediss://:p@[::1]":                    {where: "tcp [::1]:6379", tls: true},
		"unix://u:p@/run/with%20space?db=3":    {where: "unix /run/with space", user: "u", db: 3},
		"redis://:%40%3A%2F%23%3F@host.domain": {where: "tcp host.domain:6379"},
	} {
		got, err := redisurl.Parse(raw)
		require.NoError(t, err, raw)
		assert.Equal(t, want.where, got.String(), raw)
		assert.Equal(t, want.user, got.User, raw)
		assert.Equal(t, want.db, got.Database, raw)
		assert.Equal(t, want.tls, got.TLS, raw)
		assert.Len(t, got.Options(), 4, raw)
	}
}

func TestATargetDoesNotShowItsPassword(t *testing.T) {
	target, err := redisurl.Parse("redis://user:s3cr3t@host")
	require.NoError(t, err)
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s %v %+v %#v", target, target, target, target, *target, *target, *target), "s3cr3t")
}

func TestOnlyWhatAServerQuotesIsMasked(t *testing.T) {
	for _, c := range []struct{ password, said, want string }{
		{"a", "ERR max number of clients reached", "ERR max number of clients reached"},
		{"a", "ERR unknown command 'AUTH'", "ERR unknown command 'AUTH'"},
		{"a", "-LOADING Redis is loading the dataset in memory", "-LOADING Redis is loading the dataset in memory"},
		{"s3cr3t", "ERR unknown command 'AUTH s3cr3t'", "ERR unknown command 'AUTH ***'"},
		{"s3cr3t", "ERR unknown command `AUTH`, with args beginning with: `s3cr3t`, ", "ERR unknown command `AUTH`, with args beginning with: `***`, "},
		{"s3cr3t", `ERR what is "s3cr3t"?`, `ERR what is "***"?`},
		{"s3\"cr\n3t", `ERR what is "s3\"cr\n3t"?`, `ERR what is "***"?`},
		{"host", "WRONGPASS invalid username-password pair", "WRONGPASS invalid username-password pair"},
	} {
		target, err := redisurl.Parse("redis://:" + encode(c.password) + "@host")
		require.NoError(t, err)
		got := target.Mask(redis.Error(c.said))
		assert.Equal(t, redis.Error(c.want), got)
		assert.ErrorContains(t, target.Mask(fmt.Errorf("dialling: %w", redis.Error(c.said))), c.want)
		other := errors.New(c.said)
		assert.Equal(t, other, target.Mask(other), "that is not the word of a server")
		assert.NoError(t, target.Mask(nil))
	}
}

func encode(s string) (encoded string) {
	for _, b := range []byte(s) {
		encoded += fmt.Sprintf("%%%02X", b)
	}
	return encoded
}

func TestAnErrorTellsWhatIsWrongWithAURLThatHasNoPassword(t *testing.T) {
	for raw, want := range map[string]string{
		"localhost:6379": "has no scheme", "redis:/localhost": "has no // behind its scheme",
		"redis://localhost:notaport": "its port is not valid", "redis://[::1": "its port is not valid",
		"redis://localhost:notaport/p@ss": "percent-encoded", "redis://localhost:65536": "not a number from 1 to 65535",
	} {
		_, err := redisurl.Parse(raw)
		assert.ErrorContains(t, err, want, raw)
	}
}
