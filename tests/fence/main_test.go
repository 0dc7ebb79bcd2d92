// Package fence_test holds that fences rise, whatever the servers forget and whatever their clocks show.
package fence_test

import (
	"testing"

	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// TestMain runs the tests, or one worker process of theirs.
func TestMain(m *testing.M) { redistest.Main(m, redistest.Role{Variable: workerVariable, Run: work}) }

var (
	newClient = locktest.Client
	newMutex  = locktest.Mutex
)
