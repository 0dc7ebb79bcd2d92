package rueidisgo_test

import (
	"flag"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// go test -run Twin -write
var write = flag.Bool("write", false, "write the files of this package anew")

// The options of rueidis are those of valkey-go. So the files of this package are those of valkeygo with other names: the user
// of one client need not have the other. Change them there. Only valkeygo tests what options do (server*_test.go).
func TestTwinOfValkeygo(t *testing.T) {
	names := strings.NewReplacer("valkey-io/valkey-go", "redis/rueidis", "valkey-go", "rueidis",
		"valkeygo", "rueidisgo", "valkey.", "rueidis.")
	files, err := filepath.Glob("../valkeygo/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "server") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		want, err := format.Source([]byte(names.Replace(string(text))))
		require.NoError(t, err)
		ours := names.Replace(filepath.Base(file))
		if *write {
			require.NoError(t, os.WriteFile(ours, want, 0o644))
		}
		got, err := os.ReadFile(ours)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), "go test -run Twin -write")
	}
}
