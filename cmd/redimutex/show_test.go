package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
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
	assert.Regexp(t, `^job: held by web-1 pid 7: backup, age [0-9.ms]+, for another [0-9.ms]+, fence \d+\n$`, out)
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
	assert.Equal(t, "job: held by an unknown owner of another library, with a key that never expires, age unknown\n", out)
}

func TestLockIsHeldWhereAMajorityHasTheSameHolder(t *testing.T) {
	t.Parallel()
	const a, b = "f47ac10b-58cc-4372-a567-0e02b2c3d479 a", "f47ac10b-58cc-4372-a567-0e02b2c3d478 b"
	held := func(token string, left time.Duration) server.View {
		return server.View{Held: true, Holder: token, Left: left}
	}
	free := sight{Age: -1}
	by := func(owner string, ttl int64) sight { return sight{Held: true, Owner: owner, TTL: ttl, Age: -1} }
	for name, c := range map[string]struct {
		views []server.View
		want  sight
		agree int
	}{
		"one, free":            {[]server.View{{Fence: 3}}, sight{Age: -1, Fence: 3}, 0},
		"one, held":            {[]server.View{held(a, time.Second)}, by("a", 1000), 1},
		"one, held for ever":   {[]server.View{held(a, -1)}, by("a", -1), 1},
		"three, one of them":   {[]server.View{held(a, time.Second), {}, {}}, free, 1},
		"three, two of them":   {[]server.View{held(a, time.Second), {}, held(a, 2*time.Second)}, by("a", 1000), 2},
		"three, all":           {[]server.View{held(a, time.Second), held(a, 3*time.Second), held(a, 2*time.Second)}, by("a", 2000), 3},
		"three, split":         {[]server.View{held(a, time.Second), held(b, time.Second), {}}, free, 1},
		"three, two against 1": {[]server.View{held(b, time.Second), held(a, time.Second), held(a, -1)}, by("a", 1000), 2},
		"two, one of them":     {[]server.View{held(a, time.Second), {}}, free, 1},
		"the fence is the highest, the age that of the last grant, the queue the longest": {
			[]server.View{
				{Held: true, Holder: a, Left: time.Second, Fence: 5, Age: 3 * time.Second, Waiting: 1},
				{Held: true, Holder: a, Left: time.Second, Fence: 7, Age: 2 * time.Second, Waiting: 3},
				{Held: true, Holder: b, Left: time.Second, Age: time.Second, Waiting: 2},
			},
			sight{Held: true, Owner: "a", TTL: 1000, Age: 2000, Fence: 7, Waiting: 3},
			2,
		},
	} {
		assert.Equal(t, c.want, majority(c.views), name)
		_, agree := prevailing(c.views)
		assert.Equal(t, c.agree, agree, name)
	}
}

// enqueue lets a waiter of a queue come, who listens on the server unless it is dead.
func enqueue(t *testing.T, s *redistest.Server, key, owner string, dead bool) {
	t.Helper()
	channel := "channel-" + uuid.NewString()
	if !dead {
		c, err := redis.Dial("tcp", s.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = c.Do("SUBSCRIBE", channel)
		require.NoError(t, err)
	}
	token := uuid.NewString() + server.OwnerMark + owner
	reply := server.New(s.Pool()).Acquire(&server.Request{
		Key: key, Token: token, Waiter: token, Channel: channel, Queue: true, Fencing: true,
		TTL: time.Minute, Claim: time.Minute, Timeout: 10 * time.Second,
	})
	require.Equal(t, server.Held, reply.Verdict, reply.Err)
}

func TestShowTellsSinceWhenAndWhoWaits(t *testing.T) {
	s := redistest.Start(t)
	m := redimutex.New(s.Pool(), "job", redimutex.WithOwner("web-1"), redimutex.WithFencing(), redimutex.WithTTL(time.Minute))
	m.Lock()
	defer m.Unlock()
	enqueue(t, s, "job", "db-1 import\x1b[2J", false)
	enqueue(t, s, "job", "db-2", true)
	_, out, stderr := call("show", "-redis", s.URL(), "job")
	assert.Empty(t, stderr)
	assert.Regexp(t, `^job: held by web-1, age [0-9.]+m?s, for another [0-9.m]+s, fence \d+, 2 waiting in the queue
  1\. db-1 import \[2J, for [0-9.]+m?s
  2\. db-2, for [0-9.]+m?s, does not listen: dead, or connecting again
$`, out)

	_, out, _ = call("show", "-json", "-redis", s.URL(), "job")
	var v lockView
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	assert.GreaterOrEqual(t, v.Age, int64(0))
	assert.Equal(t, 1, v.Agree)
	assert.Equal(t, 2, v.Waiting)
	require.Len(t, v.Queue, 2)
	assert.Equal(t, "db-2", v.Queue[1].Owner)
	assert.True(t, *v.Queue[0].Listening)
	assert.False(t, *v.Queue[1].Listening)
	assert.NotContains(t, out, "channel")
}

func TestShowTellsWhenTheAgeIsUnknown(t *testing.T) {
	s := redistest.Start(t)
	m := redimutex.New(s.Pool(), "job", redimutex.WithOwner("web-1"))
	m.Lock()
	defer m.Unlock()
	_, out, _ := call("show", "-redis", s.URL(), "job")
	assert.Contains(t, out, "held by web-1, age unknown, for another ")
	_, out, _ = call("show", "-json", "-redis", s.URL(), "job")
	assert.Contains(t, out, `"age_ms":-1`)
}

func TestShowTellsWhichServersDisagree(t *testing.T) {
	a, b, c := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	flags := []string{"-redis", a.URL(), "-redis", b.URL(), "-redis", c.URL()}
	token := uuid.NewString() + " web-1"
	a.Do("SET", "job", token, "PX", 60000)
	status, out, _ := call(append([]string{"show", "job"}, flags...)...)
	assert.Equal(t, exitFree, status)
	assert.Contains(t, out, "job: free\n  1 of 3 servers have a holder, which is no majority: ")
	assert.Contains(t, out, a.Addr()+": held by web-1")
	assert.Contains(t, out, b.Addr()+": free")

	c.Kill() // it may have known the holder, too
	status, out, _ = call(append([]string{"show", "job"}, flags...)...)
	assert.Equal(t, exitUnavailable, status)
	assert.Contains(t, out, "job: perhaps held: ")

	b.Do("SET", "job", token, "PX", 60000)
	status, out, _ = call(append([]string{"show", "-json", "job"}, flags...)...)
	assert.Equal(t, exitOK, status)
	var v lockView
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	assert.True(t, v.Held)
	assert.Equal(t, 2, v.Agree)
	assert.NotEmpty(t, v.Servers[2].Error)

	b.Kill()
	status, out, stderr := call(append([]string{"show", "job"}, flags...)...)
	assert.Equal(t, exitUnavailable, status)
	assert.Empty(t, out)
	assert.Contains(t, stderr, b.Addr())
	assert.Contains(t, stderr, c.Addr())
}
