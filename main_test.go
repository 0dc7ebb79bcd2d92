package redimutex_test

import (
	"testing"

	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// TestMain runs the tests, or the program from the README.
func TestMain(m *testing.M) {
	redistest.Main(m, redistest.Role{Variable: exampleVariable, Run: func(string) int { Example(); return 0 }})
}

var (
	newMutex      = locktest.Mutex
	newClient     = locktest.Client
	newClientOver = locktest.ClientOver
	ended         = locktest.Ended
	panicOf       = locktest.PanicOf

	goroutines = locktest.Goroutines
)
