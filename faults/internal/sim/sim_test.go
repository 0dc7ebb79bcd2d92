package sim

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
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
		t.Run(row.Name, func(t *testing.T) { row.Hold(t, 0) })
	}
}
