package redisurl_test

import (
	"fmt"
	"testing"

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
