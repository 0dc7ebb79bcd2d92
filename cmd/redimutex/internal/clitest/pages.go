package clitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Page returns a page of the documentation.
func Page(t *testing.T, name string) string {
	t.Helper()
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			page, err := os.ReadFile(filepath.Join(dir, "docs", name))
			require.NoError(t, err)
			return string(page)
		}
		require.Less(t, len(dir), 100, "the root of the module")
	}
}

// Between returns what lies between two marks in text.
func Between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, from)
	require.True(t, ok, from)
	part, _, ok := strings.Cut(rest, to)
	require.True(t, ok, to)
	return part
}

// Rules returns the words of the ACL SETUSER lines of docs/security.md between two marks, by how the
// comment above each begins.
func Rules(t *testing.T, mark, user string) map[string][]string {
	t.Helper()
	text := Between(t, Page(t, "security.md"), "<!-- "+mark+" begin -->\n```\n", "```\n")
	all := make(map[string][]string)
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		title, line, _ := strings.Cut(strings.TrimPrefix(paragraph, "# "), "\n")
		rest, found := strings.CutPrefix(line, "ACL SETUSER "+user+" ")
		require.True(t, found, line)
		if _, after, found := strings.Cut(rest, ">PASSWORD "); found {
			rest = after
		}
		all[strings.Fields(title)[0]+" "+strings.Fields(title)[1]] = strings.Fields(rest)
	}
	return all
}
