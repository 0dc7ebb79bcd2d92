package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestWrongUsageIsOneLineThatSaysWhatIsAllowed(t *testing.T) {
	t.Parallel()
	clitest.Misuse(t, cli.UsageError, map[string][]string{
		"there is no KEY":                                       {"run", "--", "true"},
		"redimutex run: there is no KEY":                        {"run", "--", "git", "log", "--", "file"},
		"a KEY that begins with a dash stands behind a --":      {"run", "-job", "--", "true"},
		"no flag -x; a KEY that begins with a dash":             {"run", "-x", "job", "ls"},
		"no flag -5; a KEY that begins with a dash":             {"run", "-5", "ls"},
		"write: redimutex run job -- true":                      {"run", "job", "true"},
		"write: redimutex run -n 'a job' -- ls ... (":           {"run", "-n", "a job", "ls", "-l", "a b"},
		"write: redimutex run -ttl 5 job -- ls ... (":           {"run", "-ttl", "5", "job", "ls", "-x"},
		"write: redimutex run job -- curl ... (":                {"run", "job", "curl", "-u", "me:hunter2", "https://h"},
		"there is no --; write redimutex run KEY... -- COMMAND": {"run", "job", "PGPASSWORD=hunter2", "psql"},
		"write: redimutex run -redis URL job -- true":           {"run", "-redis", "redis://:hunter2@h", "job", "true"},
		"run -redis URL job -- ./x (":                           {"run", "-redis", ":hunter2@db:6379", "job", "./x"},
		"run -redis=URL -n job -- ./x (":                        {"run", "-redis=redis:/:hunter2@db", "-n", "job", "./x"},
		"there is none of that name; write a URL":               {"run", "-redis", "@user:hunter2@db", "job", "--", "true"},
		"there is no command after --":                          {"run", "job", "--"},
		"-queue is for one server":                              {"run", "-queue", "-redis", "redis://127.0.0.1:1", "-redis", "redis://127.0.0.1:2", "job", "--", "true"},
		"-s and -permits exclude each other":                    {"run", "-s", "-permits", "2", "job", "--", "true"},
		"-min-hold and -s exclude":                              {"run", "-s", "-min-hold", "5", "job", "--", "true"},
		"-min-hold and -permits exclude":                        {"run", "-permits", "2", "-min-hold", "5", "job", "--", "true"},
		"-s is for one KEY, and there are 2":                    {"run", "-s", "job", "another", "--", "true"},
		"-permits is for one KEY, and":                          {"run", "-permits", "2", "a", "b", "c", "--", "true"},
		"-queue is for one KEY, and there":                      {"run", "-queue", "job", "another", "--", "true"},
		"-s is for one server":                                  {"run", "-s", "-redis", "redis://127.0.0.1:1", "-redis", "redis://127.0.0.1:2", "job", "--", "true"},
		"-permits is for one server, and 2":                     {"run", "-permits", "2", "-redis", "redis://127.0.0.1:1", "-redis", "redis://127.0.0.1:2", "job", "--", "true"},
		"\"0\" for flag -permits: write a":                      {"run", "-permits", "0", "job", "--", "true"},
		"a name that begins with redimutex:":                    {"run", "job", "redimutex:x", "--", "true"},
		"begins with redimutex: belongs to what":                {"break", "-y", "redimutex:fence:{job}"},
		"a URL in the place of KEY; write":                      {"run", "job", "redis://:hunter2@host", "--", "true"},
		"-owner and -owner-args exclude":                        {"run", "-owner", "me", "-owner-args", "job", "--", "true"},
		"\"\" for flag -owner: it is empty":                     {"run", "-owner", "", "job", "--", "true"},
		"-owner is blank: write a name":                         {"run", "-owner", " \t", "job", "--", "true"},
		"permits, 1 at least and 2147483647 at most":            {"run", "-permits", "99999999999", "job", "--", "true"},
		"-n and -w exclude each other":                          {"run", "-n", "-w", "5", "job", "--", "true"},
		"-nope":                                                 {"run", "-nope", "job", "--", "true"},
		"\"soon\" for flag -w: write seconds":                   {"run", "-w", "soon", "job", "--", "true"},
		"for flag -w: the longest time is a year":               {"run", "-w", "1e30", "job", "--", "true"},
		"\"256\" for flag -E: write a number":                   {"run", "-E", "256", "job", "--", "true"},
		"\"-1\" for flag -E: write a number":                    {"run", "-E", "-1", "job", "--", "true"},
		"for flag -conflict-exit-code: write":                   {"run", "-conflict-exit-code", "x", "job", "--", "true"},
		"there is a URL in the place of the shell":              {"completion", "redis://:hunter2@h"},
		"@ stands before the name of a file":                    {"run", "-redis", "@redis://:hunter2@h", "job", "--", "true"},
		"-ttl 99ms: a lock has to live for 100ms":               {"run", "-ttl", "99ms", "job", "--", "true"},
		"-ttl 0s": {"run", "-ttl", "0", "job", "--", "true"},
		"-min-hold 500µs: has to be 1ms at least":            {"run", "-min-hold", "0.0005", "job", "--", "true"},
		"-grace 6s: may be half of -ttl at most":             {"run", "-grace", "6", "job", "--", "true"},
		"-grace 501ms: may be half of -ttl":                  {"run", "-ttl", "1", "-grace", "501ms", "job", "--", "true"},
		"flag needs an argument: -ttl":                       {"run", "job", "-ttl", "--", "true"},
		"a URL in the place of KEY; write -redis":            {"show", "@redis://:hunter2@host"},
		"a URL in the place of KEY":                          {"run", "redis://:hunter2@host", "--", "true"},
		"expected one KEY, got 2 arguments":                  {"show", "job", "redis://:hunter2@host"},
		"redimutex show: there is no KEY":                    {"show"},
		"redimutex version: it takes no arguments":           {"version", "1"},
		"there is no command \"lock\"; see redimutex -h":     {"lock"},
		"a URL in the place of the command":                  {"redis://:hunter2@host", "show", "job"},
		"a URL in the place of the command; write":           {"help", "redis://:hunter2@host"},
		"a URL in the place of a flag":                       {"show", "-redis://:hunter2@host", "job"},
		"a URL in the place of the value of a flag":          {"run", "-w", "redis://:hunter 2@host", "job", "--", "true"},
		"redimutex demo: it takes no arguments":              {"demo", "redis://:hunter2@host"},
		"there is no command \"rnu\"; did you mean run?":     {"rnu"},
		"did you mean watch?":                                {"wacth", "job"},
		"did you mean doctor?":                               {"doc"},
		"did you mean list?":                                 {"help", "lst"},
		"name one command":                                   {"help", "run", "list"},
		"there is no flag -redsi; did you mean -redis?":      {"show", "-redsi", "x", "job"},
		"write key, ttl, age or waiters":                     {"list", "-sort", "size"},
		"write a number of locks, 1 at least":                {"list", "-limit", "0"},
		"expected one PATTERN at most, got 2":                {"list", "a", "b"},
		"a URL in the place of PATTERN":                      {"list", "redis://:hunter2@host"},
		"redimutex watch: there is no KEY":                   {"watch"},
		"redimutex watch: there is a URL in the place":       {"watch", "job", "redis://:hunter2@host"},
		"redimutex break: there is a URL in the place":       {"break", "REDISS://:hunter2@host"},
		"-interval 49ms: it has to be 50ms at least":         {"watch", "-interval", "49ms", "job"},
		"-for 0: it would not look even once":                {"watch", "-for", "0", "job"},
		"stands behind a -- (redimutex watch -h tells more)": {"watch", "-nope", "job"},
		"there is no KEY; write a name for the lock, ":       {"watch", "job", ""},
	})
}

func TestHelpGoesToStandardOutput(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"run", "show", "version", "help", "list", "break", "watch", "doctor", "demo", "man", "completion"} {
		for _, flag := range []string{"-h", "-help", "--help"} {
			out, stderr := clitest.Ends(t, cli.OK, verb, flag)
			assert.True(t, strings.HasPrefix(out, "Usage: redimutex "+verb))
			assert.Contains(t, out, "EXIT STATUS")
			assert.Empty(t, stderr)
			_, same, _ := clitest.Call("help", verb)
			assert.Equal(t, out, same)
		}
	}
	_, want, _ := clitest.Call("-h")
	for _, args := range [][]string{{"help"}, {"--help"}, {"-help"}} {
		_, out, _ := clitest.Call(args...)
		assert.Equal(t, want, out)
	}
	_, want, _ = clitest.Call("help", "run")
	_, out, _ := clitest.Call("--help", "run")
	assert.Equal(t, want, out)
	for _, word := range []string{"h", "v", "V"} { // without dashes they are verbs, which there are not
		_, stderr := clitest.Ends(t, cli.UsageError, word)
		assert.NotEmpty(t, stderr)
	}
}

func TestHelpKnowsEveryFlagAndFitsATerminal(t *testing.T) {
	t.Parallel()
	for _, c := range commands() {
		var help strings.Builder
		c.Help(&help)
		assert.NotContains(t, help.String(), "%!", "a verb without its argument")
		for _, f := range c.Flags {
			assert.Contains(t, help.String(), "\n  "+f.Term(), c.Name)
			assert.NotEmpty(t, f.Text, "%s %v", c.Name, f.Names)
		}
		for line := range strings.Lines(help.String()) {
			assert.LessOrEqual(t, len(line), 81, line)
		}
	}
}

func TestHelpSaysWhatIsNotAsItSeems(t *testing.T) {
	t.Parallel()
	for words, verb := range map[string]string{
		"What is not UTF-8 in a key is U+FFFD":                         "list",
		"a KEY with a line break in it takes two":                      "run",
		"unless that has a space or a comma, or is a pipe":             "run",
		"that is the only one, or no majority is left without an":      "doctor",
		"or one of the KEYs is no lock or may not be read":             "watch",
		"fence The last that was given for KEY. If some of its locks ": "show",
	} {
		out, _ := clitest.Ends(t, cli.OK, "help", verb)
		assert.Contains(t, strings.Join(strings.Fields(out), " "), words, verb)
	}
}

func TestVersionHasTheFlagsThatPeopleTry(t *testing.T) {
	t.Parallel()
	_, want, _ := clitest.Call("version")
	assert.Regexp(t, `^redimutex \S.*, go1\.\S+, \w+/\w+\n$`, want)
	for _, flag := range []string{"-v", "--version", "-version", "-V"} {
		out, _ := clitest.Ends(t, cli.OK, flag)
		assert.Equal(t, want, out)
	}
}

func TestCommandLineInOneWordIsExplained(t *testing.T) {
	t.Parallel()
	_, stderr := clitest.Ends(t, cli.NotFound, "run", "job", "--", "echo a; echo b")
	assert.Contains(t, stderr, `for a line of the shell write: sh -c 'echo a; echo b'`)
	assert.Equal(t, 1, strings.Count(stderr, "\n"))
	_, _, stderr = clitest.Call("run", "job", "--", "curl --password=hunter2 x")
	assert.NotContains(t, stderr, "hunter2")
}

func TestTwoDashesEndTheFlags(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, args := range [][]string{
		{"show", "-redis", s.URL(), "--", "-json"}, {"show", "--redis", s.URL(), "--", "-json"}, {"show", "--redis=" + s.URL(), "--", "-json"},
	} {
		_, out, stderr := clitest.Call(args...)
		assert.Equal(t, "-json: free, on "+s.Addr()+"/0\n", out, stderr)
	}
}

func TestMalformedURLIsAUsageErrorWithoutThePassword(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	for _, raw := range clitest.MalformedURLs {
		calls := [][]string{
			{"run", "-redis", raw, "job", "--", "true"},
			{"run", "-redis=" + raw, "job", "--", "true"},
			{"show", "-redis", raw, "job"},
		}
		require.NoError(t, os.WriteFile(file, []byte(raw), 0o600))
		if _, err := servers.Find(servers.URLs{"@" + file}, servers.QuickTimeout); err != nil { // in a file, a line break or a comma at the end is fine
			calls = append(calls, []string{"run", "job", "-redis", "@" + file, "--", "true"})
		}
		for _, args := range calls {
			if _, err := servers.Find(servers.URLs{raw}, servers.QuickTimeout); !assert.Error(t, err, raw) {
				continue
			}
			out, stderr := clitest.Ends(t, cli.UsageError, args...)
			assert.Empty(t, out)
			assert.NotContains(t, stderr, "hunter2", "%q", raw)
			assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		}
	}
}

func TestEveryVerbNamesTLSAtAPortThatHasNone(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // as silent as a Redis that waits for the end of a line
	require.NoError(t, err)
	defer l.Close()
	for _, call := range []string{"run KEY -- true", "run -n KEY -- true", "list", "show KEY", "watch KEY", "break -y KEY", "doctor"} {
		args := strings.Fields(call)
		began := time.Now()
		_, out, stderr := clitest.Call(append([]string{args[0], "-redis", "rediss://" + l.Addr().String()}, args[1:]...)...)
		assert.Less(t, time.Since(began), 4*time.Second, "no wait for what can't come")
		if args[0] != "doctor" { // which has words of its own
			assert.Contains(t, stderr, "redis:// is for servers without TLS", call)
		}
		assert.Regexp(t, "TLS handshake:\\s+(there|it)\\s+(is|has)\\s+no\\s+TLS", out+stderr, call)
	}
}

// No server listens on port 1.
func TestNoPasswordIsRepeatedWhereverAURLStands(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://:hunter2@127.0.0.1:1/0", "redis://:hunter 2@127.0.0.1:1/0"} {
		everywhere(t, url)
	}
}

func everywhere(t *testing.T, url string) {
	t.Helper()
	check := func(args ...string) {
		status, out, stderr := clitest.Call(args...)
		assert.NotZero(t, status, args)
		assert.NotContains(t, out+stderr, "hunter", args)
	}
	check(url)
	check("-" + url)
	for _, c := range commands() {
		check(c.Name, url, "job", "another", "--", url)
		check(c.Name, "-"+url)
		check(c.Name, "-nope="+url)
		for _, f := range c.Flags {
			check(c.Name, "-"+f.Names[0]+"="+url)
			check(c.Name, "-"+f.Names[0], url, url, "--", url)
			check(c.Name, "-"+f.Names[0], url, "job", url)
		}
	}
}
