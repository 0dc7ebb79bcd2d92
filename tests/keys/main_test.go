// Package keys_test holds what is promised about the keys on the servers: a lock has the key that its user
// gave it, whatever else is there, and the keys beside it are no lock.
package keys_test

import (
	"testing"

	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var newClient = locktest.Client
