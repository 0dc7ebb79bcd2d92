package holds

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

func TestMain(m *testing.M) {
	Main()
	m.Run()
}

// staged plays a part of a row, for as short a time as there is.
func staged(t *testing.T, row evidence.Row, d time.Duration, play func(s *evidence.Scene)) evidence.Result {
	t.Helper()
	r, err := evidence.Played(row, play).Run(t.Context(), evidence.Setup{Time: d})
	require.NoError(t, err)
	return r
}
