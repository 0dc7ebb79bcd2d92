package servers

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheRowsHold(t *testing.T) {
	both := []string{"redsync", "redislock"}
	// A row that shows the failures of other libraries would also show those of this one.
	failing := map[string][]string{
		"minority": both[:1], "majority": both[:1], "only": both, "dropped-path": both, "resumed": both, "cancelled": both,
		"late-reply": both[1:], "leaks": {"redsync with FailFast"},
	}
	for _, row := range Rows() {
		t.Run(row.Name, func(t *testing.T) {
			failed := map[string]bool{}
			for _, f := range row.Hold(t, 0).Figures {
				failed[f.Library] = f.Held < f.Tried
			}
			for _, peer := range failing[row.Name] {
				assert.True(t, failed[peer], "the row does not show that %s fails", peer)
			}
		})
	}
}
