//go:build before

package entrants

import (
	"io"

	"github.com/redimutex/redimutex"
)

// This file replaces kinds.go for old versions of the library, which have no kinds of locks, and whose Multiplex makes a pool.

func multiplexed(e Env) (Locker, error) {
	pool := e.ourPool(e.Addrs[0])
	m := redimutex.Multiplex(pool, 1)
	return e.client(sameCtx, []redimutex.Pool{m}, []io.Closer{m, pool}), nil
}

var inRWMutex, inSemaphore, allOf5 func(*client, string, bool) Pair
