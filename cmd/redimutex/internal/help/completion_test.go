package help

import (
	"os"
	"path/filepath"
	"regexp"
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

// completed returns the possible continuations of a line.
func completed(t *testing.T, line string) (kind string, words []string) {
	t.Helper()
	out, stderr := clitest.Ends(t, cli.OK, "complete", line)
	require.Empty(t, stderr)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for _, l := range lines[1:] {
		word, _, ok := strings.Cut(l, "\t")
		require.True(t, ok, l)
		words = append(words, word)
	}
	return lines[0], words
}

func TestEveryFlagOfEveryHelpIsCompleted(t *testing.T) {
	// This test reads the helps in another way than the code does.
	named := regexp.MustCompile(`(?:^|, )(--?[A-Za-z][-\w]*)`)
	for _, c := range cli.Listed(allCommands()) {
		_, words := completed(t, "redimutex "+c.Name+" -")
		count := 1 // -h
		for line := range strings.Lines(helpOf(c)) {
			if !strings.HasPrefix(line, "  -") {
				continue
			}
			text, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
			for _, m := range named.FindAllStringSubmatch(text, -1) {
				assert.Contains(t, words, m[1], c.Name)
				count++
			}
		}
		assert.GreaterOrEqual(t, len(words), count)
	}
}

func TestEveryCommandIsCompletedAndCompletes(t *testing.T) {
	_, words := completed(t, "redimutex ")
	for _, c := range allCommands() {
		if c.Summary == "" {
			assert.NotContains(t, words, c.Name)
		} else {
			assert.Contains(t, words, c.Name)
		}
	}
}

func TestCompletionKnowsWhatCanStandWhere(t *testing.T) {
	t.Setenv(servers.EnvURL, "redis://127.0.0.1:1") // no server answers there
	dir := clitest.ListedDir(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "urls"), nil, 0o600))
	for line, want := range map[string]struct {
		kind  string
		words []string
	}{
		"redimutex sho":                              {kindWords, []string{"show"}},
		"redimutex nope ":                            {kindWords, nil},
		"redimutex complete ":                        {kindWords, nil},
		"redimutex":                                  {kindWords, nil},
		"":                                           {kindWords, nil},
		"A=1 B='2 3' redimutex sho":                  {kindWords, []string{"show"}},
		"redimutex completion ":                      {kindWords, []string{"bash", "zsh", "fish"}},
		"redimutex list -sort ":                      {kindWords, []string{"key", "ttl", "age", "waiters"}},
		"redimutex list --sort w":                    {kindWords, []string{"waiters"}},
		"redimutex list -sort=t":                     {kindWords, []string{"-sort=ttl"}},
		"redimutex doctor -need fencing,q":           {kindWords, []string{"fencing,queue"}},
		"redimutex doctor -ignore pers":              {kindWords, []string{"persistence"}},
		"redimutex list -limit ":                     {kindWords, nil},
		"redimutex help sh":                          {kindWords, []string{"show"}},
		"redimutex completion z":                     {kindWords, []string{"zsh"}},
		"redimutex completion zsh ":                  {kindWords, nil},
		"redimutex run -tt":                          {kindWords, []string{"-ttl"}},
		"redimutex run --tt":                         {kindWords, []string{"--ttl"}},
		"redimutex run -ttl ":                        {kindWords, nil},
		"redimutex run -ttl -":                       {kindWords, nil},
		"redimutex run -ttl 5 -gr":                   {kindWords, []string{"-grace"}},
		"redimutex run -ttl=5 -gr":                   {kindWords, []string{"-grace"}},
		"redimutex run -E 5 job ":                    {kindWords, []string{"--"}},
		"redimutex run job -n ":                      {kindWords, []string{"--"}},
		"redimutex run 'a job' ":                     {kindWords, []string{"--"}},
		"redimutex run job -- ":                      {kindCommand, nil},
		"redimutex run job -- ls -":                  {kindCommand, nil},
		"redimutex show job -- -":                    {kindWords, nil},
		"redimutex run -redis " + dir:                {kindWords, nil},
		"redimutex run -redis @" + dir + "/":         {kindWords, []string{"@" + dir + "/folder/", "@" + dir + "/urls"}},
		"redimutex run -redis @" + dir + "/u":        {kindWords, []string{"@" + dir + "/urls"}},
		"redimutex run -redis @" + dir + "/nowhere/": {kindWords, nil},
		"redimutex run -redis 'redis://nope:x:y' k":  {kindWords, nil},
	} {
		kind, words := completed(t, line)
		assert.Equal(t, want.kind, kind, line)
		assert.Equal(t, want.words, words, line)
	}
}

func TestKeysOfLocksAreCompleted(t *testing.T) {
	s := redistest.Start(t)
	t.Setenv(servers.EnvURL, s.URL())
	for _, key := range []string{"job:1", "job:2", "job*", "my job", "other", "a[1]", "job\x1b[31m"} {
		s.Do("SET", key, "f47ac10b-58cc-4372-a567-0e02b2c3d479", "PX", 60000)
	}
	s.Do("SET", "job:cache", "a value that is no token")
	for line, want := range map[string][]string{
		"redimutex show job":                 {"job*", "job:1", "job:2"},
		"redimutex show job*":                {"job*"},
		"redimutex show my":                  {"my job"},
		"redimutex show o":                   {"other"},
		"redimutex show 'a[":                 {"a[1]"},
		"redimutex show job:1 ":              nil,
		"redimutex run -n job:":              {"job:1", "job:2"},
		"redimutex run job: -- job":          nil,
		"redimutex show -redis nope: o":      nil,
		"redimutex show -redis=nope: o":      nil,
		"redimutex show -redis " + s.URL():   nil,
		"redimutex run -redis @/nowhere o":   nil,
		"redimutex run -ttl o":               nil,
		"redimutex show -redis [ -json o":    nil,
		"redimutex show -json -redis @x x o": nil,
	} {
		_, words := completed(t, line)
		assert.Equal(t, want, words, line)
	}
	t.Setenv(servers.EnvURL, "")
	_, words := completed(t, "redimutex show -redis "+s.URL()+" o")
	assert.Equal(t, []string{"other"}, words)
}

func TestCompletionDoesNotWaitForAServerThatHangs(t *testing.T) {
	s, other := redistest.Start(t), redistest.Start(t)
	other.Do("SET", "job", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "PX", 60000)
	s.Pause()
	defer s.Resume()
	t.Setenv(servers.EnvURL, s.URL()+","+other.URL())
	began := time.Now()
	_, words := completed(t, "redimutex show ")
	assert.Equal(t, []string{"job"}, words, "what is known is offered")
	assert.Less(t, time.Since(began), 5*time.Second)
}

func TestLineIsTakenApartAsByAShell(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"":                      {""},
		"a":                     {"a"},
		"a ":                    {"a", ""},
		"  a\t b":               {"a", "b"},
		`a\ b c`:                {"a b", "c"},
		`'a b' "c d" e'f'"g"`:   {"a b", "c d", "efg"},
		`'it'\''s' "\"\$\x" ''`: {"it's", `"$\x`, ""},
		`'' a`:                  {"", "a"},
		`'a b`:                  {"a b"},
		`"$(reboot)" ` + "`x`":  {"$(reboot)", "`x`"},
		`a\`:                    {"a"},
	} {
		assert.Equal(t, want, splitLine(line), line)
	}
}

func TestCompletionIsForAShellThatHasOne(t *testing.T) {
	for _, shell := range shells {
		out, stderr := clitest.Ends(t, cli.OK, "completion", shell)
		assert.Empty(t, stderr)
		assert.Contains(t, out, shell)
	}
	clitest.Misuse(t, cli.UsageError, map[string][]string{
		"there is no completion for \"tcsh\"; there is one for bash, zsh, fish": {"completion", "tcsh"},
		"there is no completion for \"../x\"":                                   {"completion", "../x"},
		"name one shell: bash, zsh, fish":                                       {"completion"},
	})
}
