package secrets

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// verbs are the commands that take a URL, and what they need besides.
var verbs = [][]string{
	{"run", "-n", "job", "--", "true"},
	{"show", "job"},
	{"list"},
	{"watch", "-for", "0.1", "job"},
	{"break", "-yes", "job"},
	{"doctor"},
}

// commandLine builds redimutex and gives each of its commands all the malformed URLs, by a flag, the
// environment or a file in turn.
func commandLine(ctx context.Context, t testing.TB, y *tally) {
	dir := t.TempDir()
	program := filepath.Join(dir, "redimutex")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/redimutex/redimutex/cmd/redimutex").CombinedOutput(); err != nil {
		t.Skipf("it can't be built here: %v: %s", err, out)
	}
	for i, form := range malformed {
		raw := strings.ReplaceAll(form, "PW", password)
		for j, verb := range verbs {
			args, env := verb, "LANG=C"
			switch (i + j) % 3 {
			case 0:
				args = append([]string{verb[0], "-redis", raw}, verb[1:]...)
			case 1:
				env = "REDIMUTEX_URL=" + raw
			case 2:
				raw := strings.TrimSpace(raw) // a line break at the end of a file is none of the URL
				file := filepath.Join(dir, "url")
				if err := os.WriteFile(file, []byte(raw), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append([]string{verb[0], "-redis", "@" + file}, verb[1:]...)
			}
			if strings.HasSuffix(form, "\n") && (i+j)%3 != 0 {
				continue // valid there, and leads to somewhere else
			}
			cmd := exec.CommandContext(ctx, program, args...)
			cmd.Env = []string{env, "PATH=" + os.Getenv("PATH"), "HOME=" + dir}
			out, err := cmd.CombinedOutput()
			y.check(verb[0]+" with "+form, err != nil && len(out) > 0, string(out))
		}
	}
}
