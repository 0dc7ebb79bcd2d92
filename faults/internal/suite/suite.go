// Package suite has the rows whose scenarios are tests of the library. It runs the tests as they are, and counts them.
package suite

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	secrets := evidence.Row{
		ID: 21, Name: "secrets", Fault: "restricted ACL user, TLS, malformed URLs", Must: "works; no secret in any output",
		Short: 30 * time.Second, Long: time.Minute,
	}
	secrets.Run = func(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
		return play(ctx, s, redistest.Builds()[:min(1, len(redistest.Builds()))], "Password|Secret|Permissions|TLS|Leak|LogsIn",
			".", "./tests/security", "./internal/redisurl", "./cmd/redimutex")
	}
	servers := evidence.Row{
		ID: 25, Name: "servers", Fault: "every feature, on each server that " + redistest.Variable + " names",
		Must: "works, or the server can't and it is said why", Short: 15 * time.Second, Long: 4 * time.Minute,
	}
	servers.Run = func(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
		if s.Long {
			return play(ctx, s, redistest.Builds(), ".", "./tests/...")
		}
		return play(ctx, s, redistest.Builds(), ".", "./tests/kinds")
	}
	return []evidence.Row{secrets, servers}
}

// play runs the tests of some packages of the library on each server.
func play(ctx context.Context, s evidence.Setup, builds []redistest.Build, which string, packages ...string) (evidence.Result, error) {
	var r evidence.Result
	if len(builds) == 0 {
		return r, fmt.Errorf("%w: there is no redis-server or valkey-server on the PATH", evidence.ErrSkipped)
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/redimutex/redimutex").Output()
	if err != nil {
		return r, fmt.Errorf("%w: the library's source or Go is not at hand: %w", evidence.ErrSkipped, err)
	}
	for i, b := range builds {
		if s.Report != nil {
			s.Report(i, len(builds))
		}
		args := append([]string{"test", "-json", "-count=1", "-p", "1", "-timeout", "20m", "-run", which}, packages...)
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = strings.TrimSpace(string(root))
		cmd.Env = append(os.Environ(), redistest.Variable+"="+b.Path)
		out, err := cmd.StdoutPipe()
		if err = errors.Join(err, cmd.Start()); err != nil {
			return r, err
		}
		c := read(out)
		err = cmd.Wait()
		r.Figures = append(r.Figures, c.figure(b.String(), err))
		for _, test := range slices.Concat(c.failed, c.skipped) {
			r.Notes = append(r.Notes, fmt.Sprintf("%v: %s.", b, test))
		}
	}
	r.Notes = append(r.Notes, fmt.Sprintf("Run in the library's folder: go test -run '%s' %s.", which, strings.Join(packages, " ")))
	return r, ctx.Err()
}

// A count is the outcome of tests. A test with subtests counts only if it fails.
type count struct {
	passed          int
	failed, skipped []string
}

// read counts what go test -json says.
func read(out io.Reader) (c count) {
	type event struct{ Action, Package, Test, Output string }
	said := make(map[string]string) // by test: the last line of its output
	parts := make(map[string]bool)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		name := e.Package + "." + e.Test
		if i := strings.LastIndex(name, "/"); i > len(e.Package) {
			parts[name[:i]] = true
		}
		words := strings.TrimSpace(e.Output)
		switch {
		case e.Action == "output" && !strings.HasPrefix(words, "---") && !strings.HasPrefix(words, "==="):
			said[name] = words
		case e.Action == "fail":
			c.failed = append(c.failed, e.Test+" fails: "+said[name])
		case parts[name]:
		case e.Action == "pass":
			c.passed++
		case e.Action == "skip":
			c.skipped = append(c.skipped, e.Test+" was left out: "+said[name])
		}
		if e.Action != "output" && e.Action != "run" && e.Action != "pause" && e.Action != "cont" {
			delete(said, name)
		}
	}
	return c
}

// figure returns the figure of a server. If a run ended with an error and no test failed, the figure fails.
func (c count) figure(server string, err error) evidence.Figure {
	f := evidence.Figure{Library: evidence.Ours + ", " + server, Held: c.passed, Tried: c.passed + len(c.failed)}
	f.Worst = fmt.Sprintf("%d tests, %d failed, %d that the server can't", f.Tried, len(c.failed), len(c.skipped))
	if err != nil && len(c.failed) == 0 {
		f.Tried++
		f.Worst += fmt.Sprintf("; go test: %v", err)
	}
	return f
}
