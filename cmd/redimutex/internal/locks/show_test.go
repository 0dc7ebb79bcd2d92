package locks

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestShowTellsWhoHoldsTheLockAndNeverTheToken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	out, stderr := clitest.Ends(t, cli.Failure, "show", "-redis", s.URL(), "job")
	assert.Equal(t, "job: free, on "+s.Addr()+"/0\n", out, "the server that was asked")
	assert.Empty(t, stderr)

	m := redimutex.New(s.Pool(), "job", redimutex.WithOwner("web-1 pid 7: backup"), redimutex.WithFencing(), redimutex.WithTTL(time.Minute))
	m.Lock()
	defer m.Unlock()
	out, _ = clitest.Ends(t, cli.OK, "show", "job", "-redis", s.URL())
	assert.Regexp(t, `^job: held by web-1 pid 7: backup, age [0-9.ms]+, for another [0-9.ms]+, fence \d+, on \S+/0\n$`, out)
	uuid, _, _ := strings.Cut(m.Lease().Token(), " ")
	assert.NotContains(t, out, uuid)

	out, _ = clitest.Ends(t, cli.OK, "show", "-json", "-redis", s.URL(), "job")
	assert.NotContains(t, out, uuid)
	v := clitest.FromJSON[sight.Lock](t, out)
	assert.True(t, v.Held)
	assert.Equal(t, "web-1 pid 7: backup", v.Owner)
	assert.Equal(t, m.Lease().Fence(), v.Fence)
	assert.Positive(t, v.TTL)
	require.Len(t, v.Servers, 1)
	assert.Equal(t, s.Addr(), v.Servers[0].Address)
	assert.Equal(t, s.Addr()+"/0", v.Servers[0].Name)
}

func TestShowCallsTheHolderOfAForeignTokenUnknown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", "secret-token of bob")
	for _, args := range [][]string{{"show", "job"}, {"show", "-json", "job"}} {
		out, _ := clitest.Ends(t, cli.OK, append(args, "-redis", s.URL())...)
		assert.NotContains(t, out, "secret")
		if args[1] == "-json" {
			assert.Contains(t, out, `"age_ms":-1`)
		}
	}
	_, out, _ := clitest.Call("show", "job", "-redis", s.URL())
	assert.Equal(t, "job: held by an unknown owner of another library (perhaps no lock), with a key that never expires, age unknown, on "+s.Addr()+"/0\n", out)
}

func TestShowTellsSinceWhenAndWhoWaits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := redimutex.New(s.Pool(), "job", redimutex.WithOwner("web-1"), redimutex.WithFencing(), redimutex.WithTTL(time.Minute))
	m.Lock()
	defer m.Unlock()
	clitest.Enqueue(t, s, "job", "m next", "db-1 import\x1b[2J", false)
	clitest.Enqueue(t, s, "job", "m next", "db-2", true)
	_, out, stderr := clitest.Call("show", "-redis", s.URL(), "job")
	assert.Empty(t, stderr)
	assert.Regexp(t, `^job: held by web-1, age [0-9.]+m?s, for another [0-9.m]+s, fence \d+, 2 waiting, on \S+/0
  1\. db-1 import \[2J, for [0-9.]+m?s
  2\. db-2, for [0-9.]+m?s, does not listen: dead, or connecting again
$`, out)

	_, out, _ = clitest.Call("show", "-json", "-redis", s.URL(), "job")
	v := clitest.FromJSON[sight.Lock](t, out)
	assert.GreaterOrEqual(t, v.Age, int64(0))
	assert.Equal(t, 1, v.Agree)
	assert.Equal(t, 2, v.Waiting)
	require.Len(t, v.Queue, 2)
	assert.Equal(t, "db-2", v.Queue[1].Owner)
	assert.True(t, *v.Queue[0].Listening)
	assert.False(t, *v.Queue[1].Listening)
	assert.NotContains(t, out, "channel")
}

func TestShowTellsWhichServersDisagree(t *testing.T) {
	t.Parallel()
	all, flags := clitest.Three(t)
	a, b, c := all[0], all[1], all[2]
	token := clitest.Token("web-1")
	a.Do("SET", "job", token, "PX", 60000)
	out, _ := clitest.Ends(t, cli.Failure, append([]string{"show", "job"}, flags...)...)
	assert.Contains(t, out, "job: free\n  1 of 3 servers have the same holder, which is no majority: ")
	assert.Contains(t, out, a.Addr()+"/0: held by web-1")
	assert.Contains(t, out, b.Addr()+"/0: free")

	c.Kill() // it may have known the holder, too
	out, _ = clitest.Ends(t, cli.Unavailable, append([]string{"show", "job"}, flags...)...)
	assert.Contains(t, out, "job: perhaps held: ")

	b.Do("SET", "job", token, "PX", 60000)
	out, _ = clitest.Ends(t, cli.OK, append([]string{"show", "-json", "job"}, flags...)...)
	v := clitest.FromJSON[sight.Lock](t, out)
	assert.True(t, v.Held)
	assert.Equal(t, 2, v.Agree)
	assert.NotEmpty(t, v.Servers[2].Error)

	b.Kill()
	out, stderr := clitest.Ends(t, cli.Unavailable, append([]string{"show", "job"}, flags...)...)
	assert.Empty(t, out)
	assert.Contains(t, stderr, b.Addr())
	assert.Contains(t, stderr, c.Addr())
}
