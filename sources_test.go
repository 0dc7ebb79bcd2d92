package redimutex_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestTenTriesWithGrowingDelaysGiveUpAfterFourAndAHalfSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		require.NoError(t, server.Set("k", "foreign"))
		m := newMutex(t, pool, "k", redimutex.WithBackoff(redimutex.Linear(100*time.Millisecond)), redimutex.WithMaxAttempts(10))
		began := time.Now()
		require.ErrorIs(t, m.LockContext(t.Context(), 0), redimutex.ErrLocked)
		assert.Equal(t, 4500*time.Millisecond, time.Since(began), "100 ms, 200 ms and so on, to 900 ms")
	})
}

func TestPageOfRecipesNamesTestsAndFoldersThatExist(t *testing.T) {
	tests := make(map[string]bool)
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Example)\w+)\(`)
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
		return err
	}))
	rows := 0
	for line := range strings.Lines(read(t, "docs/source-systems.md")) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), "|")
		if len(cells) != 6 || !strings.Contains(cells[3], "`") {
			continue
		}
		rows++
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[3], -1) {
			if strings.HasPrefix(m[1], "examples/") {
				assert.DirExists(t, m[1])
			} else {
				assert.True(t, tests[m[1]], "%s is on the page, and no test", m[1])
			}
		}
	}
	assert.GreaterOrEqual(t, rows, 20)
}

func TestPageOfArchitectureShowsTheImportsThatThereAre(t *testing.T) {
	shown := make(map[string][]string)
	for line := range strings.Lines(between(t, read(t, "docs/architecture.md"), "```mermaid\ngraph TD\n", "```")) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " --> ")
		from, _, _ = strings.Cut(from, "[")
		shown[from] = nil
		if to != "" {
			shown[from] = strings.Split(to, " & ")
			slices.Sort(shown[from])
		}
	}
	folders, err := filepath.Glob("internal/*")
	require.NoError(t, err)
	for _, folder := range append(folders, ".", "cacheaside", "debughttp", "election") {
		name := strings.Replace(filepath.Base(folder), ".", "root", 1)
		if name == "redistest" || name == "machine" { // for tests and for the benchmarks
			continue
		}
		to, ok := shown[name]
		assert.True(t, ok, "%s is not shown", name)
		assert.Equal(t, imports(t, folder), to, name)
	}
}

// imports returns which other packages of ours the one in a folder imports, as the page calls them.
func imports(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range f.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if path == "github.com/redimutex/redimutex" {
				names = append(names, "root")
			} else if rest, ok := strings.CutPrefix(path, "github.com/redimutex/redimutex/internal/"); ok {
				names = append(names, rest)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestPageOfArchitectureNamesFilesThatExist(t *testing.T) {
	found := regexp.MustCompile("`(\\w+/[\\w*]+\\.(?:go|lua))`").FindAllStringSubmatch(read(t, "docs/architecture.md"), -1)
	assert.NotEmpty(t, found)
	for _, m := range found {
		files, err := filepath.Glob(filepath.Join("internal", strings.Replace(m[1], "lua/", "server/lua/", 1)))
		require.NoError(t, err)
		assert.NotEmpty(t, files, m[1])
	}
}
