// Package redlock_test tests the promise over several servers, some of which are slow, silent or dead.
package redlock_test

import (
	"testing"

	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.FewAtOnce()
	redistest.Main(m)
}

var newClientOver = locktest.ClientOver
