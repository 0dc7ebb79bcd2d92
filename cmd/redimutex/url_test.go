package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// malformed are URLs that are wrong in every way that we could think of, each with a password in it.
var malformed = []string{
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

func TestMalformedURLIsAUsageErrorWithoutThePassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "url")
	for _, raw := range malformed {
		calls := [][]string{
			{"run", "-redis", raw, "job", "--", "true"},
			{"run", "-redis=" + raw, "job", "--", "true"},
			{"show", "-redis", raw, "job"},
		}
		require.NoError(t, os.WriteFile(file, []byte(raw), 0o600))
		if _, err := findServers(urls{"@" + file}); err != nil { // in a file, a line break or a comma at the end is fine
			calls = append(calls, []string{"run", "job", "-redis", "@" + file, "--", "true"})
		}
		for _, args := range calls {
			if _, err := findServers(urls{raw}); !assert.Error(t, err, raw) {
				continue
			}
			status, out, stderr := call(args...)
			assert.Equal(t, exitUsage, status, "%q: %s", raw, stderr)
			assert.Empty(t, out)
			assert.NotContains(t, stderr, "hunter2", "%q", raw)
			assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		}
	}
}

func FuzzNoPasswordInTheErrorOfAURL(f *testing.F) {
	for _, raw := range malformed {
		before, after, _ := strings.Cut(raw, "hunter2")
		f.Add(before, after)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		if raw := before + "hunter2" + after; !strings.HasPrefix(raw, "@") {
			if _, err := findServers(urls{raw}); err != nil && strings.Contains(err.Error(), "hunter2") &&
				!strings.Contains(err.Error(), "is named twice") {
				t.Errorf("%q: %v", raw, err)
			}
		}
		if clean := withoutPassword("redis://:hunter2@host," + after); strings.Contains(clean, "hunter2@") {
			t.Errorf("%q leaves %q", after, clean)
		}
	})
}

func TestServersComeFromTheFlagThenOurVariableThenTheApplications(t *testing.T) {
	file := filepath.Join(t.TempDir(), "urls")
	require.NoError(t, os.WriteFile(file, []byte("# three\nredis://f1\n\n redis://f2, redis://f3:7000\n"), 0o600))
	for name, c := range map[string]struct {
		flags        urls
		ours, theirs string
		want         string
	}{
		"nothing":        {nil, "", "", "127.0.0.1:6379"},
		"theirs":         {nil, "", "redis://app", "app:6379"},
		"ours":           {nil, "redis://a", "redis://app", "a:6379"},
		"ours is a list": {nil, "redis://a,rediss://b:1 redis://[::1]", "", "a:6379, b:1, [::1]:6379"},
		"ours is a file": {nil, "@" + file, "", "f1:6379, f2:6379, f3:7000"},
		"flags":          {urls{"redis://x/1", "unix:///y?db=2"}, "redis://a", "redis://app", "x:6379, /y"},
		"flag is a file": {urls{"@" + file}, "redis://a", "", "f1:6379, f2:6379, f3:7000"},
	} {
		t.Setenv(envURL, c.ours)
		t.Setenv(envAppURL, c.theirs)
		nodes, err := findServers(c.flags)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, nodes.addresses(), name)
	}
}

func TestServersThatMakeNoQuorumAreAUsageError(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("# nothing\n"), 0o600))
	for want, given := range map[string]urls{
		"127.0.0.1:7000 is named twice": {"redis://127.0.0.1:7000", "redis://127.0.0.1:7000/1"},
		"no URL in the file":            {"@" + empty},
		"no such file":                  {"@" + empty + "-missing"},
	} {
		_, err := findServers(given)
		assert.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "-redis")
	}
	t.Setenv(envURL, "nonsense")
	_, err := findServers(nil)
	assert.ErrorContains(t, err, envURL)
}
