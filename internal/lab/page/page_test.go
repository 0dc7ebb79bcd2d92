package page

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPageKeepsWhatStandsAroundTheMarkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+begins+"\nyesterday\n"+ends+"\nafter\n"), 0o600))
	require.NoError(t, Check(path, ""))
	for range 2 {
		require.NoError(t, Fill(path, "today\n"))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "before\n"+begins+"\n\ntoday\n\n"+ends+"\nafter\n", string(text))
}

func TestAPageWithoutMarkersIsToldAndLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	assert.Error(t, Check("", path), "there is none")
	for _, text := range []string{"", begins, ends + "\n" + begins} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		assert.ErrorContains(t, Check("", path), "needs a line")
		assert.ErrorContains(t, Fill(path, "today"), "needs a line")
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, text, string(left))
	}
	assert.NoError(t, Fill("", "nowhere"))
}
