package redistest

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStageTellsOfTheFirstFailureAndCleansUpLastFirst(t *testing.T) {
	var order []string
	var dir string
	err := Stage(context.Background(), func(t testing.TB) {
		dir = t.TempDir()
		t.Cleanup(func() { order = append(order, "first") })
		t.Cleanup(func() { order = append(order, "second") })
		t.Errorf("number %d", 1)
		require.Equal(t, 1, 2)
		order = append(order, "not reached")
	})
	assert.EqualError(t, err, "number 1")
	assert.Equal(t, []string{"second", "first"}, order)
	_, err = os.Stat(dir)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestStageTellsASkipFromAFailure(t *testing.T) {
	err := Stage(context.Background(), func(t testing.TB) { t.Skip("no server") })
	require.ErrorIs(t, err, ErrSkipped)
	assert.ErrorContains(t, err, "no server")
	assert.NoError(t, Stage(context.Background(), func(testing.TB) {}))
}
