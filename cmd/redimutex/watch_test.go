//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
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
	s := redistest.Start(t)
	p := launch(t, s, "watch", "-interval", "0.05", "job", "other", "job")
	p.says(" job: free\n")
	p.says(" other: free\n")
	m := hold(t, s, "job", "web-1: backup")
	uuid, _, _ := strings.Cut(m.Lease().Token(), " ")
	p.says(" job: acquired by web-1: backup, fence ")
	m.Unlock()
	p.says(" job: released by web-1: backup after ")
	s.Do("SET", "other", "f47ac10b-58cc-4372-a567-0e02b2c3d479 \x1b[31mx\n")
	p.says(" other: acquired by  [31mx \n")
	s.Do("ZADD", "{other}:queue", 1, "channel 0 0 token")
	p.says(" other: 1 waiting\n")
	p.signal(syscall.SIGINT)
	assert.Equal(t, 130, p.status())
	assert.NotContains(t, p.out(), uuid)
	for line := range strings.Lines(p.out()) {
		at, _, _ := strings.Cut(line, " ")
		_, err := time.Parse(stamp, at)
		assert.NoError(t, err)
	}
	assert.Equal(t, 1, strings.Count(p.out(), "job: free"), "a key that is named twice is watched once")
	assert.Empty(t, p.err())
}

func TestWatchTellsScriptsEachLook(t *testing.T) {
	s := redistest.Start(t)
	m := hold(t, s, "job", "web-1")
	uuid, _, _ := strings.Cut(m.Lease().Token(), " ")
	p := launch(t, s, "watch", "-json", "-interval", "0.05", "job", "other")
	p.says(`"event":"held"`)
	m.Unlock()
	p.says(`"event":"released","owner":"","from":"web-1"`)
	p.signal(syscall.SIGTERM)
	assert.Equal(t, 143, p.status())
	assert.NotContains(t, p.out(), uuid)
	for i, line := range strings.Split(strings.TrimSuffix(p.out(), "\n"), "\n") {
		var l lookLine
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
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
	s := redistest.Start(t)
	m := hold(t, s, "job", "web-1")
	status, out, stderr := run(t, s, "watch", "-for", "0.2", "job")
	assert.Equal(t, exitOK, status, stderr)
	assert.Contains(t, out, "job: held by web-1, fence")
	status, _, _ = run(t, s, "watch", "-until-free", "-for", "0.2", "job", "other")
	assert.Equal(t, exitFailure, status, "one of them is still held")
	p := launch(t, s, "watch", "-until-free", "-interval", "0.05", "job", "other")
	p.says("job: held by")
	m.Unlock()
	assert.Equal(t, exitOK, p.status())
	assert.Contains(t, p.out(), "job: released by web-1")
}

func TestWatchSaysAtOnceThatNoServerCanBeReached(t *testing.T) {
	free := redistest.FreeAddr(t)
	status, out, stderr := run(t, nil, "watch", "-redis", "redis://:hunter2@"+free, "job")
	assert.Equal(t, exitUnavailable, status)
	assert.Empty(t, out)
	assert.Regexp(t, `^redimutex: can't look at "job": `+free+`: connect: connection refused \(does it run`, stderr)
	assert.NotContains(t, stderr, "hunter2")

	s := redistest.Start(t)
	s.Do("HSET", "hash", "field", "value")
	status, _, stderr = run(t, s, "watch", "job", "hash")
	assert.Equal(t, exitUnavailable, status)
	assert.Contains(t, stderr, `can't look at "hash": `)
	assert.Contains(t, stderr, "WRONGTYPE")
}

func TestWatchSurvivesAnOutage(t *testing.T) {
	s := redistest.Start(t)
	m := hold(t, s, "job", "web-1")
	p := launch(t, s, "watch", "-interval", "0.05", "job")
	p.says("job: held by web-1")
	s.Kill()
	p.says(s.Addr() + ": ")
	s.Restart()
	p.says(s.Addr() + ": answers again, after ")
	_ = m.Lease() // a server that has lost its memory knows nothing of it
	p.says("job: free")
	assert.NotContains(t, p.out(), "released")
	hold(t, s, "job", "web-2")
	p.says("acquired by web-2")
	assert.Empty(t, p.err())
}

func TestWatchIsNotHeldUpByAServerThatHangs(t *testing.T) {
	var flags []string
	var all []*redistest.Server
	for range 3 {
		s := redistest.Real(t)
		all = append(all, s)
		flags = append(flags, "-redis", s.URL())
	}
	p := launch(t, nil, append([]string{"watch", "-interval", "0.05", "job"}, flags...)...)
	p.says("job: free")
	all[0].Pause()
	defer all[0].Resume()
	p.says(all[0].Addr() + ": no answer in time")
	for _, s := range all[1:] {
		s.Do("SET", "job", tokenA, "PX", 60000)
	}
	p.says("job: acquired by a")
	all[0].Resume()
	p.says(all[0].Addr() + ": answers again")
}

func TestWatchIsCheapForTheServer(t *testing.T) {
	s := redistest.Real(t)
	heard := s.Monitor()
	keys := []string{"one", "two", "three", "four"}
	status, out, stderr := run(t, s, append([]string{"watch", "-json", "-for", "0.5", "-interval", "0.1"}, keys...)...)
	require.Equal(t, exitOK, status, stderr)
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

func TestWatchIsToldWhatIsWrong(t *testing.T) {
	for want, args := range map[string][]string{
		"there is no KEY":                              {"watch"},
		"a URL in the place of KEY":                    {"watch", "job", "redis://:hunter2@host"},
		"-interval 49ms: it has to be 50ms at least":   {"watch", "-interval", "49ms", "job"},
		"-for 0: it would not look even once":          {"watch", "-for", "0", "job"},
		"\"soon\" for flag -for: write seconds":        {"watch", "-for", "soon", "job"},
		"-nope (redimutex watch -h tells more)":        {"watch", "-nope", "job"},
		"there is no KEY; write a name for the lock, ": {"watch", "job", ""},
	} {
		status, out, stderr := call(args...)
		assert.Equal(t, exitUsage, status, args)
		assert.Empty(t, out)
		assert.Contains(t, stderr, want)
		assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		assert.NotContains(t, stderr, "hunter2")
	}
}
