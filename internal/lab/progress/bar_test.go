package progress_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/lab/progress"
)

func TestWhereThereIsNoTerminalThereAreOnlyLines(t *testing.T) {
	var out strings.Builder
	b := progress.Start(&out, 10*time.Second)
	assert.False(t, b.Terminal())
	b.Show(time.Second, "the first")
	b.Line("%d of %d", 1, 2)
	assert.InDelta(t, .5, b.Share(5*time.Second), 1e-9)
	assert.Equal(t, "This takes about 10s.\n1 of 2\n", out.String())
}
