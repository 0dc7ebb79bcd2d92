package topologies_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPageShowsThePoolsThatAreTested(t *testing.T) {
	source, err := os.ReadFile("pools.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../docs/topologies.md")
	require.NoError(t, err)
	for _, name := range []string{"sentinel pool", "cluster pool"} {
		_, rest, found := strings.Cut(string(source), "// "+name+" begins\n")
		require.True(t, found)
		code, _, found := strings.Cut(rest, "// "+name+" ends\n")
		require.True(t, found)
		assert.Contains(t, string(page), "```go\n"+strings.TrimSpace(code)+"\n```\n", name)
	}
	for _, name := range regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(name[1], "TestOnBorrow") { // fields of redis.Pool
			continue
		}
		assert.True(t, slices.ContainsFunc(testFiles(t), func(text string) bool {
			return strings.Contains(text, "func "+name[1]+"(")
		}), "%s is on the page, and no test", name[1])
	}
}

func testFiles(t *testing.T) (texts []string) {
	names, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	return texts
}
