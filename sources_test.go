package redimutex_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
