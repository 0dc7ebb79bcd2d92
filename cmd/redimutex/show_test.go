package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestShowTellsWhoHoldsTheLockAndNeverTheToken(t *testing.T) {
	s := redistest.Start(t)
	status, out, stderr := call("show", "-redis", s.URL(), "job")
	assert.Equal(t, exitFree, status)
	assert.Equal(t, "job: free\n", out)
	assert.Empty(t, stderr)

	m := redimutex.New(s.Pool(), "job", redimutex.WithOwner("web-1 pid 7: backup"), redimutex.WithFencing(), redimutex.WithTTL(time.Minute))
	m.Lock()
	defer m.Unlock()
	status, out, _ = call("show", "job", "-redis", s.URL())
	assert.Equal(t, exitOK, status)
	assert.Regexp(t, `^job: held by web-1 pid 7: backup, for another [0-9.ms]+, fence \d+\n$`, out)
	uuid, _, _ := strings.Cut(m.Lease().Token(), " ")
	assert.NotContains(t, out, uuid)

	status, out, _ = call("show", "-json", "-redis", s.URL(), "job")
	assert.Equal(t, exitOK, status)
	assert.NotContains(t, out, uuid)
	var v lockView
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	assert.True(t, v.Held)
	assert.Equal(t, "web-1 pid 7: backup", v.Owner)
	assert.Equal(t, m.Lease().Fence(), v.Fence)
	assert.Positive(t, v.TTL)
	require.Len(t, v.Servers, 1)
	assert.Equal(t, s.Addr(), v.Servers[0].Address)
}

func TestShowCallsTheHolderOfAForeignTokenUnknown(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "job", "secret-token of somebody")
	for _, args := range [][]string{{"show", "job"}, {"show", "-json", "job"}} {
		status, out, _ := call(append(args, "-redis", s.URL())...)
		assert.Equal(t, exitOK, status)
		assert.NotContains(t, out, "secret")
	}
	_, out, _ := call("show", "job", "-redis", s.URL())
	assert.Equal(t, "job: held by an unknown owner, with a key that never expires\n", out)
}

func TestLockIsHeldWhereAMajorityHasTheSameHolder(t *testing.T) {
	t.Parallel()
	const a, b = "f47ac10b-58cc-4372-a567-0e02b2c3d479 a", "f47ac10b-58cc-4372-a567-0e02b2c3d478 b"
	held := func(token string, left time.Duration) server.View {
		return server.View{Held: true, Holder: token, Left: left}
	}
	for name, c := range map[string]struct {
		views []server.View
		want  sight
	}{
		"one, free":            {[]server.View{{Fence: 3}}, sight{Fence: 3}},
		"one, held":            {[]server.View{held(a, time.Second)}, sight{true, "a", 1000, 0}},
		"one, held for ever":   {[]server.View{held(a, -1)}, sight{true, "a", -1, 0}},
		"three, one of them":   {[]server.View{held(a, time.Second), {}, {}}, sight{}},
		"three, two of them":   {[]server.View{held(a, time.Second), {}, held(a, 2*time.Second)}, sight{true, "a", 1000, 0}},
		"three, all":           {[]server.View{held(a, time.Second), held(a, 3*time.Second), held(a, 2*time.Second)}, sight{true, "a", 2000, 0}},
		"three, split":         {[]server.View{held(a, time.Second), held(b, time.Second), {}}, sight{}},
		"three, two against 1": {[]server.View{held(b, time.Second), held(a, time.Second), held(a, -1)}, sight{true, "a", 1000, 0}},
		"two, one of them":     {[]server.View{held(a, time.Second), {}}, sight{}},
		"the fence is the highest": {
			[]server.View{{Held: true, Holder: a, Left: time.Second, Fence: 5}, {Held: true, Holder: a, Left: time.Second, Fence: 7}, {}},
			sight{true, "a", 1000, 7},
		},
	} {
		assert.Equal(t, c.want, majority(c.views), name)
	}
}
