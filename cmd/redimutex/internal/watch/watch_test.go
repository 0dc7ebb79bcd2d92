//go:build unix

package watch

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// hold takes a lock, which lives for a minute.
func hold(t *testing.T, s *redistest.Server, key, owner string) *redimutex.Mutex {
	t.Helper()
	m := redimutex.New(s.Pool(), key, redimutex.WithOwner(owner), redimutex.WithFencing(), redimutex.WithTTL(time.Minute))
	m.Lock()
	return m
}

func TestWatchTellsLineByLineWhatHappens(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := clitest.Launch(t, s, "watch", "-interval", "0.05", "job", "other", "job")
	p.Says(" job: free, on " + s.Addr() + "/0\n")
	p.Says(" other: free, on " + s.Addr() + "/0\n")
	m := hold(t, s, "job", "web-1: backup")
	uuid, _, _ := strings.Cut(m.Lease().Token(), " ")
	p.Says(" job: acquired by web-1: backup, fence ")
	m.Unlock()
	p.Says(" job: released by web-1: backup after ")
	s.Do("SET", "other", clitest.Token("\x1b[31mx\n"))
	p.Says(" other: acquired by  [31mx \n")
	s.Do("ZADD", "redimutex:queue:{other}", 1, "channel 0 1 token")
	p.Says(" other: 1 waiting\n")
	p.Signal(syscall.SIGINT)
	assert.Equal(t, 130, p.Status())
	assert.Equal(t, syscall.SIGINT, p.DiedOf(), "so that a script around it ends as well")
	assert.NotContains(t, p.Out(), uuid)
	for line := range strings.Lines(p.Out()) {
		at, _, _ := strings.Cut(line, " ")
		_, err := time.Parse(stamp, at)
		assert.NoError(t, err)
	}
	assert.Equal(t, 1, strings.Count(p.Out(), "job: free"), "a key that is named twice is watched once")
	assert.Empty(t, p.Err())
}

func TestWatchTellsScriptsEachLook(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := hold(t, s, "job", "web-1")
	uuid, _, _ := strings.Cut(m.Lease().Token(), " ")
	p := clitest.Launch(t, s, "watch", "-json", "-interval", "0.05", "job", "other")
	p.Says(`"event":"held"`)
	m.Unlock()
	p.Says(`"event":"released","owner":"","from":"web-1"`)
	p.Signal(syscall.SIGTERM)
	assert.Equal(t, 143, p.Status())
	assert.NotContains(t, p.Out(), uuid)
	for i, line := range strings.Split(strings.TrimSuffix(p.Out(), "\n"), "\n") {
		l := clitest.FromJSON[lookLine](t, line)
		assert.Equal(t, []string{"job", "other"}[i%2], l.Key)
		assert.True(t, l.Known)
		assert.NotNil(t, l.Events)
		if i == 0 {
			assert.True(t, l.Held)
			assert.Equal(t, "web-1", l.Owner)
			assert.Positive(t, l.TTL)
			assert.GreaterOrEqual(t, l.Age, int64(0))
			assert.Positive(t, l.Fence)
			assert.Equal(t, s.Addr(), l.Servers[0].Address)
		}
	}
}

func TestWatchEndsAsAsked(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := hold(t, s, "job", "web-1")
	out, _ := clitest.RunEnds(t, cli.OK, s, "watch", "-for", "0.2", "job")
	assert.Contains(t, out, "job: held by web-1, fence")
	clitest.RunEnds(t, cli.Failure, s, "watch", "-until-free", "-for", "0.2", "job", "other")
	p := clitest.Launch(t, s, "watch", "-until-free", "-interval", "0.05", "job", "other")
	p.Says("job: held by")
	m.Unlock()
	assert.Equal(t, cli.OK, p.Status())
	assert.Contains(t, p.Out(), "job: released by web-1")
}

func TestWatchSaysAtOnceThatNoServerCanBeReached(t *testing.T) {
	t.Parallel()
	free := redistest.FreeAddr(t)
	out, stderr := clitest.RunEnds(t, cli.Unavailable, nil, "watch", "-redis", "redis://:hunter2@"+free, "job")
	assert.Empty(t, out)
	assert.Regexp(t, `^redimutex: can't look at "job": `+free+`/0: connect: connection refused \(does it run`, stderr)
	assert.NotContains(t, stderr, "hunter2")

	s := redistest.Start(t)
	s.Do("HSET", "hash", "field", "value")
	_, stderr = clitest.RunEnds(t, cli.Unavailable, s, "watch", "job", "hash")
	assert.Contains(t, stderr, `can't look at "hash": `)
	assert.Contains(t, stderr, "WRONGTYPE")
}

func TestWatchSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	hold(t, s, "job", "web-1")
	p := clitest.Launch(t, s, "watch", "-interval", "0.05", "job")
	p.Says("job: held by web-1")
	s.Kill()
	p.Says(s.Addr() + "/0: ")
	s.Restart()
	p.Says(s.Addr() + "/0: answers again, after ")
	p.Says("job: free") // the server has lost its memory
	assert.NotContains(t, p.Out(), "released")
	hold(t, s, "job", "web-2")
	p.Says("acquired by web-2")
	assert.Empty(t, p.Err())
}

func TestWatchIsNotHeldUpByAServerThatHangs(t *testing.T) {
	t.Parallel()
	all, flags := clitest.Three(t)
	p := clitest.Launch(t, nil, append([]string{"watch", "-interval", "0.05", "job"}, flags...)...)
	p.Says("job: free")
	all[0].Pause()
	defer all[0].Resume()
	p.Says(all[0].Addr() + "/0: no answer in time")
	for _, s := range all[1:] {
		s.Do("SET", "job", tokenA, "PX", 60000)
	}
	p.Says(" by a") // acquired; or held, if a look was between the two
	all[0].Resume()
	p.Says(all[0].Addr() + "/0: answers again")
}

func TestWatchIsCheapForTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	heard := s.Monitor()
	keys := []string{"one", "two", "three", "four"}
	out, _ := clitest.RunEnds(t, cli.OK, s, append([]string{"watch", "-json", "-for", "0.5", "-interval", "0.1"}, keys...)...)
	looks := strings.Count(out, "\n") / len(keys)
	clients := make(map[string]bool)
	asked := 0
	for _, line := range heard.Lines() {
		if strings.Contains(line, `"one"`) && strings.Contains(strings.ToUpper(line), `"GET"`) {
			asked++
		}
		if strings.Contains(strings.ToUpper(line), `"PTTL"`) {
			_, client, _ := strings.Cut(line, "[")
			client, _, _ = strings.Cut(client, "]")
			clients[client] = true
		}
		for _, word := range []string{`"KEYS"`, `"SCAN"`, `"SET"`, `"EVAL`, `"SUBSCRIBE"`} {
			assert.NotContains(t, strings.ToUpper(line), word)
		}
	}
	assert.LessOrEqual(t, asked, looks+1, "once for each look; the last one may not have been printed")
	assert.Len(t, clients, 1, "one connection")
}
