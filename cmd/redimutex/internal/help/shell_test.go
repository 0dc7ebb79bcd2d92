//go:build linux

package help

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// shellHome returns a folder with a redimutex in it, and an environment in which shells find only that redimutex.
func shellHome(t *testing.T, shell string, s *redistest.Server) (dir string, env []string) {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		t.Skipf("needs %s(1)", shell)
	}
	p := clitest.Prepare(t, s)
	dir = t.TempDir()
	require.NoError(t, os.Symlink(p.Cmd.Path, filepath.Join(dir, "redimutex")))
	env = append(p.Cmd.Env, "HOME="+dir, "PATH="+dir+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TERM=dumb",
		"XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	return dir, env
}

// shellRun runs a script in a shell, with the completion of redimutex in a file.
func shellRun(t *testing.T, s *redistest.Server, script, shell string, args ...string) []string {
	t.Helper()
	dir, env := shellHome(t, shell, s)
	_, completion, _ := clitest.Call("completion", shell)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "completion"), []byte(completion), 0o600))
	file := filepath.Join(dir, "script")
	require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
	cmd := exec.Command(shell, append(args, file)...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	assert.Empty(t, stderr.String(), "an error would end up in the middle of the line")
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

func TestBashCompletes(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want []string
	}{
		"commands":           {`_t 'redimutex sho' sho redimutex sho`, []string{"show"}},
		"flags":              {`_t 'redimutex run -conf' -conf redimutex run -conf`, []string{"-conflict-exit-code"}},
		"a command":          {`_t 'redimutex run k -- redimute' redimute redimutex run k -- redimute`, []string{"redimutex"}},
		"its arguments":      {`_t 'redimutex run k -- cat compl' compl redimutex run k -- cat compl`, []string{"completion"}},
		"a file of URLs":     {`_t 'redimutex run -redis @scr' scr redimutex run -redis @ scr`, []string{"script"}},
		"nothing for a time": {`_t 'redimutex run -ttl ' '' redimutex run -ttl ''`, nil},
		"without running anything": {
			"_t 'redimutex run -redis \"$(touch bad)\" `touch bad` ' '' redimutex run -redis x y ''; echo bad*", []string{"--", "bad*"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := `. ./completion
_t() {
    local line=$1 word=$2; shift 2
    COMP_LINE=$line COMP_POINT=${#line} COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _redimutex redimutex "$word" before
    if ((${#COMPREPLY[@]})); then printf '%s\n' "${COMPREPLY[@]}"; fi
}
` + c.line
			assert.Equal(t, c.want, shellRun(t, nil, script, "bash", "--norc", "--noprofile"))
		})
	}
}

func TestZshCompletes(t *testing.T) {
	for name, c := range map[string]struct {
		words string
		want  []string
	}{
		"commands":       {"redimutex sho", []string{"describe show:show who holds a lock"}},
		"flags":          {"redimutex run -conf", []string{"describe -conflict-exit-code:Exit status when the lock is held and -n or -w ended the wait"}},
		"a command":      {"redimutex run k -- l", []string{"normal 1 l"}},
		"its arguments":  {"redimutex run k -- ls -l ''", []string{"normal 3 ls -l ''"}},
		"a file of URLs": {"redimutex run -redis @scr", []string{"describe @script"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Functions of zsh print their names, and the words that they would pass on.
			script := `
compdef() {}
_describe() { local -a list=("${(@P)2}"); print -rl -- "describe $^list" }
_normal() { print -r -- "normal $CURRENT $words" }
. ./completion
words=(${(z):-"` + c.words + `"}) CURRENT=$#words PREFIX=${words[-1]//\'\'/} QIPREFIX=
_redimutex
`
			assert.Equal(t, c.want, shellRun(t, nil, script, "zsh", "-f"))
		})
	}
}

func TestFishCompletes(t *testing.T) {
	for line, want := range map[string][]string{
		"redimutex sho":               {"show\tshow who holds a lock"},
		"redimutex run -conf":         {"-conflict-exit-code\tExit status when the lock is held and -n or -w ended the wait"},
		"redimutex run k -- redimute": {"redimutex\tcommand link"},
		"redimutex run -redis @scr":   {"@script"},
		"redimutex run -ttl ":         nil,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			script := ". ./completion\ncomplete -C '" + line + "'\n"
			assert.Equal(t, want, shellRun(t, nil, script, "fish", "--no-config"))
		})
	}
}

// The whole path: a terminal, and the line editor of the shell.
func TestTabCompletesAtAPrompt(t *testing.T) {
	for shell, start := range map[string]string{
		"bash": "bash --rcfile rc --noprofile -i",
		"zsh":  "ZDOTDIR=. zsh -i",
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			dir, env := shellHome(t, shell, nil)
			rc := "PS1='ready> '\n"
			if shell == "zsh" {
				rc += "unsetopt zle_bracketed_paste 2>/dev/null; autoload -U compinit && compinit -D -u\n"
			}
			rc += "source <(redimutex completion " + shell + ")\n"
			for _, name := range []string{"rc", ".zshrc"} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(rc), 0o600))
			}
			y := clitest.Shell(t, nil, dir, env, start)
			y.Says("ready> ")
			y.Type("redimutex vers\t")
			y.Says("version")
			y.Type("\n")
			y.Says("linux/")
			y.Type("exit\n")
			assert.Equal(t, 0, y.Status())
		})
	}
}
