package rules_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// table returns the words in the first column of the table of names in metrics/README.md.
func table(t *testing.T) map[string]bool {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "## Names\n")
	require.True(t, ok)
	words := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|").FindAllStringSubmatch(section, -1) {
		words[m[1]] = true
	}
	require.NotEmpty(t, words)
	return words
}

func TestWhatIsLoggedHasTheNamesOfTheTable(t *testing.T) {
	t.Parallel()
	words := table(t)
	logged := 0
	apart := map[string]bool{"bench": true, "examples": true, "faults": true, "topologies": true, ".git": true}
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && apart[d.Name()]:
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, name := range attributes(n) {
				logged++
				assert.True(t, words[name], "%s logs %q, which is not in the table of names", path, name)
			}
			return true
		})
		return nil
	}))
	assert.NotZero(t, logged)
}

// attributes returns the names in a call of a logger: every other argument after the message.
func attributes(n ast.Node) (names []string) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) < 3 {
		return nil
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !map[string]bool{"Debug": true, "Info": true, "Warn": true, "Error": true}[method.Sel.Name] {
		return nil
	}
	if x, _ := method.X.(*ast.Ident); x != nil && x.Name == "http" {
		return nil // http.Error answers, and logs nothing
	}
	for i := 1; i < len(call.Args); i += 2 {
		if word, ok := call.Args[i].(*ast.BasicLit); ok && word.Kind == token.STRING {
			name, _ := strconv.Unquote(word.Value)
			names = append(names, name)
		}
	}
	return names
}

func TestMetricsHaveTheLabelsOfTheTable(t *testing.T) {
	t.Parallel()
	words := table(t)
	for name, f := range scrape(t) {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				assert.True(t, words[l.GetName()], "%s has the label %q, which is not in the table of names", name, l.GetName())
			}
		}
	}
}
