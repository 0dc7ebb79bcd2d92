// Package bounds_test holds every verb to its bound: whatever a server does, and whatever pool stands
// between, a call returns in time.
package bounds_test

import (
	"testing"

	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.FewAtOnce()
	redistest.Main(m)
}
