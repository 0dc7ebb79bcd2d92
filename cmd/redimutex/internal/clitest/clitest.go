// Package clitest is shared by the tests of the verbs. It runs a verb as a process, in a terminal, or inside the test.
package clitest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

var commands func() []*cli.Command

// Main runs the tests of a package. The test binary can also act as a program with these commands, so that tests can start
// real processes.
func Main(m *testing.M, all func() []*cli.Command) {
	commands = all
	program := redistest.Role{Variable: "REDIMUTEX_TEST_MAIN", Run: func(string) int {
		become()
		cli.Main(commands())
		return 0
	}}
	if os.Getenv(program.Variable) == "" {
		catchSignals()
		// The tests may run in the environment of a user of the program.
		for _, name := range []string{"REDIMUTEX_URL", "REDIS_URL", "REDIMUTEX_HOLDS"} {
			os.Unsetenv(name) //nolint:errcheck // it fails only for an invalid name
		}
	}
	redistest.Main(m, program)
}

// catchSignals makes sure that signals have their default action in the processes that the tests start. The tests may run
// under nohup, or as a background job of a shell, with some signals ignored. A child inherits an ignored signal, but a caught
// signal has its default action in the child.
func catchSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// Ends is Call that also checks the exit status.
func Ends(t *testing.T, status int, args ...string) (out, err string) {
	t.Helper()
	is, out, err := Call(args...)
	assert.Equal(t, status, is, "%q: %s", args, err)
	return out, err
}

// Misuse calls the program with each of the arguments, which are wrong. The program must say so in one line with these words
// and without a password, and end with the status.
func Misuse(t *testing.T, status int, calls map[string][]string) {
	t.Helper()
	for words, args := range calls {
		out, err := Ends(t, status, args...)
		assert.Empty(t, out)
		assert.Contains(t, err, words)
		assert.Equal(t, 1, strings.Count(err, "\n"), err)
		assert.NotContains(t, err, "hunter2")
	}
}

// Call runs the program inside this process. It is for calls that end before they start anything.
func Call(args ...string) (status int, out, err string) {
	var o, e bytes.Buffer
	status = cli.Dispatch(commands(), args, &cli.Terminal{In: os.Stdin, Out: cli.NewOutput(&o), Err: &e})
	return status, o.String(), e.String()
}

// MalformedURLs are wrong in many ways. Each has a password in it.
var MalformedURLs = []string{
	"hunter2", ":hunter2@host", "//:hunter2@host", "http://:hunter2@host", "redis:hunter2@host", "redis:/:hunter2@host",
	"redis://:hunter2@", "redis://:hunter2@:6379", "redis://:hunter2@host:port", "redis://:hunter2@host:0",
	"redis://:hunter2@host:65536", "redis://:hunter2@host:6379:6379", "redis://:hunter2@host/db", "redis://:hunter2@host/-1",
	"redis://:hunter2@host/0/1", "redis://:hunter2@host?db=1", "redis://:hunter2@host#1", "redis://:hunter2#x@host",
	"redis://:hunter2/x@host", "redis://:hunter2?x@host", "redis://:hunter2%zz@host", "redis://hunter2@host",
	"redis://:hunter2 x@host", "redis://:hunter2@ho st", "redis://:hunter2@[::1", "redis://:hunter2@host%zz", "rediss://:hunter2@",
	"redis://:12/hunter2@host", "redis://user:hunter2/6379@host", "unix://:hunter2@host/socket", "unix://:hunter2@socket",
	"unix://:hunter2@/socket?x=1", "unix://:hunter2@/socket?db=x", "REDIS ://:hunter2@host", "redis://:hunter2\x00@host",
	"redis://:hunter2@host\n", "redis://:hunter2@host,redis://b",
}

// Enqueue puts a waiter into the queue of a lock. wants has its kind of lock and its fence. It listens unless it is dead.
func Enqueue(t *testing.T, s *redistest.Server, key, wants, owner string, dead bool) {
	t.Helper()
	channel := "channel-" + uuid.NewString()
	if !dead {
		c, err := redis.Dial("tcp", s.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = c.Do("SUBSCRIBE", channel)
		require.NoError(t, err)
	}
	s.Do("ZADD", server.QueueKey(key), time.Now().UnixMicro(), channel+" "+wants+" 60000 "+Token(owner))
	s.Do("PEXPIRE", server.QueueKey(key), 60000)
}

// Token returns the token of a new hold. owner is its label; "": it has none.
func Token(owner string) string {
	if owner == "" {
		return uuid.NewString()
	}
	return uuid.NewString() + server.OwnerMark + owner
}

// ListedDir returns a folder whose path may be in a list of URLs, which spaces and commas divide.
func ListedDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if strings.ContainsAny(dir, " ,") {
		t.Skip("the folder for temporary files has a space or a comma in its path")
	}
	return dir
}

// FromJSON reads the JSON that a verb has printed.
func FromJSON[T any](t *testing.T, text string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// Pass lets time pass in which nothing can be seen from outside.
func Pass(t *testing.T, what string, d time.Duration) {
	t.Helper()
	end := time.Now().Add(d)
	redistest.Wait(t, what, func() bool { return time.Now().After(end) })
}

// Three starts three servers, and returns the flags that name them.
func Three(t *testing.T) (all []*redistest.Server, flags []string) {
	t.Helper()
	for range 3 {
		s := redistest.Start(t)
		all, flags = append(all, s), append(flags, "-redis", s.URL())
	}
	return all, flags
}

// Page returns a page of the documentation.
func Page(t *testing.T, name string) string {
	t.Helper()
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			page, err := os.ReadFile(filepath.Join(dir, "docs", name))
			require.NoError(t, err)
			return string(page)
		}
		require.Less(t, len(dir), 100, "the root of the module")
	}
}

// Between returns the part of text between two marks.
func Between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, from)
	require.True(t, ok, from)
	part, _, ok := strings.Cut(rest, to)
	require.True(t, ok, to)
	return part
}

// Rules returns the words of the ACL SETUSER lines of docs/security.md between two marks. The map's keys are the first two
// words of the comment above each line.
func Rules(t *testing.T, mark, user string) map[string][]string {
	t.Helper()
	text := Between(t, Page(t, "security.md"), "<!-- "+mark+" begin -->\n```\n", "```\n")
	all := make(map[string][]string)
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		title, line, _ := strings.Cut(strings.TrimPrefix(paragraph, "# "), "\n")
		rest, found := strings.CutPrefix(line, "ACL SETUSER "+user+" ")
		require.True(t, found, line)
		if _, after, found := strings.Cut(rest, ">PASSWORD "); found {
			rest = after
		}
		all[strings.Fields(title)[0]+" "+strings.Fields(title)[1]] = strings.Fields(rest)
	}
	return all
}
