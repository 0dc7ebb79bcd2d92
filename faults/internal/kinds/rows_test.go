package kinds

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestTheRowsHold(t *testing.T) {
	if !redistest.Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH: miniredis can't be killed, and has no MONITOR")
	}
	for _, row := range Rows() {
		t.Run(row.Name, func(t *testing.T) {
			r, err := row.Run(t.Context(), evidence.Setup{Seed: 1, Time: row.Short / 2, Dir: t.TempDir()})
			require.NoError(t, err)
			for _, f := range r.Figures {
				t.Log(f)
				assert.True(t, f.OK(), f.String())
			}
			assert.True(t, r.OK())
		})
	}
}
