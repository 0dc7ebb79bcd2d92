package topologies_test

import (
	"os"
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
}
