package sim

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// skipped says why the tests are not run.
var skipped string

func TestMain(m *testing.M) {
	Main()
	if skipped != "" {
		fmt.Println("skipped:", skipped)
		return
	}
	os.Exit(m.Run())
}

// run simulates and returns the report.
func run(t *testing.T, c Config) *Report {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	r, err := Run(t.Context(), program, c, nil)
	require.NoError(t, err)
	return r
}

func TestRowsHold(t *testing.T) {
	for _, row := range Rows() {
		t.Run(row.Name, func(t *testing.T) {
			res, err := row.Run(t.Context(), evidence.Setup{Seed: 1, Time: row.Short, Dir: t.TempDir(), Report: func(int, int) {}})
			require.NoError(t, err)
			for _, f := range res.Figures {
				t.Log(f)
				assert.True(t, f.OK(), "%v", f)
			}
			assert.True(t, res.OK())
		})
	}
}
