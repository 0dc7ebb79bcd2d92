package redimutex_test

import (
	"testing"

	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	newMutex  = locktest.Mutex
	newClient = locktest.Client
	ended     = locktest.Ended
	panicOf   = locktest.PanicOf

	goroutines = locktest.Goroutines
)
