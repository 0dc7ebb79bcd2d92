package redimutex_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pages returns the README, the pages in docs, and the other pages at the top.
func pages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return append(all, "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
}

// prose returns the lines of a page that are outside blocks of code.
func prose(text string) (lines []string) {
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		} else if !code {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

func TestPagesHaveLinesOf120ColumnsOutsideTablesAndCode(t *testing.T) {
	for _, page := range pages(t) {
		for _, line := range prose(read(t, page)) {
			if !strings.HasPrefix(line, "|") {
				assert.LessOrEqual(t, utf8.RuneCountInString(line), 120, "%s: %s", page, line)
			}
		}
	}
}

// anchors returns the names that links use for the headings of a page.
func anchors(t *testing.T, page string) (names []string) {
	for _, line := range prose(read(t, page)) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			heading = regexp.MustCompile(`[^\p{L}\p{N}\- ]`).ReplaceAllString(strings.ToLower(heading[1:]), "")
			names = append(names, strings.ReplaceAll(heading, " ", "-"))
		}
	}
	return names
}

func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(link[1], "#")
			target := filepath.Join(filepath.Dir(page), path)
			if path == "" {
				target = page
			}
			if _, err := os.Stat(target); assert.NoError(t, err, page) && anchor != "" {
				assert.Contains(t, anchors(t, target), anchor, "%s: %s", page, link[1])
			}
		}
	}
}
