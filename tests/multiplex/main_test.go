// Package multiplex_test holds the promise over multiplexed connections, and measures what that saves.
package multiplex_test

import (
	"testing"

	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var newClient = locktest.Client
