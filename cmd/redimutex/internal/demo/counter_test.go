package demo

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCounterIsNeverHalfWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "counter")
	writer, err := openCounter(path)
	require.NoError(t, err)
	defer writer.close()
	reader, err := openCounter(path)
	require.NoError(t, err)
	defer reader.close()
	require.NoError(t, writer.write(0))
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() {
		for n := 0; ctx.Err() == nil; n = 99999999 - n {
			if writer.write(n) != nil {
				return
			}
		}
	})
	for range 20000 {
		n, err := reader.read()
		require.NoError(t, err)
		require.Contains(t, []int{0, 99999999}, n)
	}
	stop()
	busy.Wait()
}
