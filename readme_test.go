package redimutex_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

func TestReadmeShowsTheExampleThatRuns(t *testing.T) {
	source := read(t, "example_test.go")
	body := between(t, source, "\nfunc Example() {\n", "\t// Output:")
	body = strings.TrimPrefix(body, "\tdefer startRedis()() // not in the README\n\n")
	assert.Equal(t, body, between(t, read(t, "README.md"), "\nfunc main() {\n", "}\n```"))
}

func TestTheProgramOfTheReadmeExitsWithAnErrorWhenItFails(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	run := func() (out string, status int) {
		redistest.Wait(t, "an answer within the node timeout, which a late machine may miss", func() bool {
			example := exec.Command(os.Args[0])
			example.Env = append(os.Environ(), exampleVariable+"=1", "REDIS_URL=redis://"+server.Addr())
			words, _ := example.CombinedOutput()
			out, status = string(words), example.ProcessState.ExitCode()
			return !strings.Contains(out, "timeout")
		})
		return out, status
	}
	out, status := run()
	assert.Zero(t, status, out)
	assert.Equal(t, "no other process is here now\n", out)
	server.RequireAuth("password")
	out, status = run()
	assert.Equal(t, 1, status, out)
	assert.Contains(t, out, "NOAUTH")
}

func TestReadmeAndPackageDocumentationNameEveryOption(t *testing.T) {
	for _, page := range []string{"README.md", "doc.go"} {
		text := read(t, page)
		for _, name := range options(t) {
			assert.True(t, strings.Contains(text, name), "%s does not name %s", page, name)
		}
	}
}

// tests returns the names of all tests of this module, each with the folders that have it.
func tests(t *testing.T) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)\w*)\(`)
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = append(found[m[1]], filepath.Dir(path))
		}
		return err
	}))
	return found
}

func TestPageOfRecipesNamesTestsAndFoldersThatExist(t *testing.T) {
	tests := tests(t)
	rows := 0
	for line := range strings.Lines(read(t, "docs/source-systems.md")) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
		if len(cells) != 5 || !strings.Contains(cells[3], "`") {
			continue
		}
		rows++
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[3], -1) {
			if strings.HasPrefix(m[1], "examples/") {
				assert.DirExists(t, m[1])
			} else {
				assert.Contains(t, tests, m[1], "is on the page, and no test")
			}
		}
	}
	assert.GreaterOrEqual(t, rows, 20)
}

func TestPagesNameTestsThatExist(t *testing.T) {
	tests := tests(t)
	for _, page := range []string{"docs/security.md", "docs/topologies.md", "docs/guarantees.md"} {
		names := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(read(t, page), -1)
		assert.NotEmpty(t, names, page)
		for _, name := range names {
			assert.Contains(t, tests, name[1], page)
		}
	}
}

func TestEachGuaranteeHasATest(t *testing.T) {
	held, rows := between(t, read(t, "docs/guarantees.md"), "## What holds\n", "\n## "), 0
	for line := range strings.Lines(held) {
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(line, "| tests |\n") {
			continue
		}
		rows++
		assert.Regexp(t, "`Test\\w+` \\|\n$", line)
	}
	assert.NotZero(t, rows)
}

// The figures that a page quotes have to be those of the last run.
func TestFiguresOfTheEvidenceAreThoseOfItsPage(t *testing.T) {
	evidence := read(t, "docs/evidence.md")
	quotes := map[string]string{
		"README.md":       between(t, read(t, "README.md"), "## Evidence\n", "\n## "),
		"docs/fencing.md": read(t, "docs/fencing.md"),
	}
	for page, text := range quotes {
		figures := regexp.MustCompile(`[\d,]*\d\s+of\s+[\d,]*\d`).FindAllString(text, -1)
		assert.NotEmpty(t, figures, page)
		for _, figure := range figures {
			quoted := strings.Join(strings.Fields(figure), " ")
			assert.True(t, strings.Contains(evidence, quoted), "%s has %s, docs/evidence.md has not", page, quoted)
		}
	}
}

func TestFiguresOfTheSpeedAreThoseOfItsPage(t *testing.T) {
	benchmark := read(t, "docs/benchmark.md")
	figures := regexp.MustCompile(`\d+(?:,\d{3})+|\d+ ms`).FindAllString(between(t, read(t, "README.md"), "## Speed\n", "\n## "), -1)
	assert.NotEmpty(t, figures)
	for _, figure := range figures {
		assert.Regexp(t, `\| `+strings.TrimSuffix(figure, " ms")+` +\|`, benchmark)
	}
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
		if name == "redistest" || name == "locktest" || name == "machine" || name == "lab" { // for tests and benchmarks
			continue
		}
		to, ok := shown[name]
		assert.True(t, ok, "%s is not shown", name)
		assert.Equal(t, imports(t, folder), to, name)
	}
	assert.Equal(t, imports(t, "cmd/redimutex", "cmd/redimutex/internal/*"), shown["cmd"])
}

// imports returns which other packages of this module the packages in some folders import, named as on the page.
func imports(t *testing.T, folders ...string) (names []string) {
	t.Helper()
	var files []string
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		files = append(files, found...)
	}
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
			} else if rest, ok := strings.CutPrefix(path, "github.com/redimutex/redimutex/internal/"); ok && rest != "redistest" { // the demo's server
				names = append(names, rest)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestPageOfArchitectureNamesFilesThatExist(t *testing.T) {
	found := regexp.MustCompile("`((?:\\w+/)*[\\w*]+\\.(?:go|lua))`").FindAllStringSubmatch(read(t, "docs/architecture.md"), -1)
	assert.NotEmpty(t, found)
	for _, m := range found {
		files, err := filepath.Glob(filepath.Join("internal", strings.Replace(m[1], "lua/", "server/lua/", 1)))
		require.NoError(t, err)
		fromRoot, err := filepath.Glob(m[1])
		require.NoError(t, err)
		assert.NotEmpty(t, append(files, fromRoot...), m[1])
	}
}

// options returns the names of the functions that return an Option.
func options(t *testing.T) (names []string) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		require.NoError(t, err)
		parsed = append(parsed, f)
	}
	p, err := doc.NewFromFiles(fset, parsed, "github.com/redimutex/redimutex")
	require.NoError(t, err)
	for _, typ := range p.Types {
		if typ.Name != "Option" {
			continue
		}
		for _, f := range typ.Funcs {
			names = append(names, f.Name)
		}
	}
	require.NotEmpty(t, names)
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// between returns the text between two marks.
func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, from)
	require.True(t, ok, "there is no %q", from)
	part, _, ok := strings.Cut(rest, to)
	require.True(t, ok, "there is no %q", to)
	return part
}
