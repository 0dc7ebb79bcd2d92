package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

type Call struct {
	Key      string
	More     []string // further keys of the lock
	Hint     *Key     // nil, or that of an earlier call for the same keys
	Terms    *server.Terms
	Once     bool                          // a single try, and no waiting
	MaxTries int                           // 0: no limit
	Pause    func(tries int) time.Duration // the wait after so many tries
}

type Result struct {
	Key     *Key
	Tries   int             // how often the servers were asked
	Wait    time.Duration   // since the call; 0 if it never began
	Failure *quorum.Failure // nil: the lock is held
}

// handOff is the hand-off lease of a waiter that is so far from the server: it outlasts the waiter's way to extend it,
// which it does not do at once, a stall of the server of one node timeout, and the age of the waiter's last look.
func handOff(t *server.Terms, rtt time.Duration) time.Duration {
	return min(t.Timeout+2*rtt+minLook+keepalive.Patience, t.TTL)
}

// Over reports whether ctx has ended. Its deadline is kept by others too, and they may notice it before the
// timer of ctx has fired; then it is waited for, so that the caller gets the cause of its own ctx.
func Over(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	if !ok || time.Now().Before(deadline) {
		return false
	}
	select {
	case <-ctx.Done():
		return true
	case <-time.After(late): // a context of a caller's own, which does not keep what it says
		return false
	}
}

// late is how late the timer of a ctx may be, on a machine that stands still now and then.
const late = time.Second
