package kinds

import (
	"testing"

	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestTheRowsHold(t *testing.T) {
	for _, row := range Rows() {
		t.Run(row.Name, func(t *testing.T) { row.Hold(t, row.Short/2) })
	}
}
