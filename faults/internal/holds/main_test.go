package holds

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
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

// holds runs the short version of a row, for d.
func holds(t *testing.T, row evidence.Row, d time.Duration) evidence.Result {
	t.Helper()
	if !redistest.Installed() {
		t.Skip("needs a real redis-server: miniredis can't be paused, killed or cut off")
	}
	r, err := row.Run(context.WithoutCancel(t.Context()), evidence.Setup{Seed: 1, Time: d, Dir: t.TempDir()})
	require.NoError(t, err)
	for _, f := range r.Figures {
		t.Log(f)
	}
	require.True(t, r.OK())
	return r
}
