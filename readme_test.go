package redimutex_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	run := func() (string, int) {
		example := exec.Command(os.Args[0])
		example.Env = append(os.Environ(), exampleVariable+"=1", "REDIS_URL=redis://"+server.Addr())
		out, _ := example.CombinedOutput()
		return string(out), example.ProcessState.ExitCode()
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

// between returns what lies between two marks in text.
func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, from)
	require.True(t, ok, "there is no %q", from)
	part, _, ok := strings.Cut(rest, to)
	require.True(t, ok, "there is no %q", to)
	return part
}
