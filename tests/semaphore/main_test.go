// Package semaphore_test holds what a Semaphore promises among processes, over real servers and the exported API alone.
package semaphore_test

import (
	"testing"

	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
