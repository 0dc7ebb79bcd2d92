package lock

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/quorum"
)

// A Kind says what a Failure means to the caller.
type Kind int8

const (
	Servers Kind = iota // the servers have said no; Failure.Servers says how
	Busy                // another caller of this process has the lock, or asks for it
	Ended               // the caller's ctx has ended
	Closed              // the Engine was closed
)

// A Failure is how a call ended without success.
type Failure struct {
	Kind    Kind
	Servers *quorum.Failure // Busy, Ended: what stood in the way as far as it is known, or nil
	Waited  bool            // Ended: the call had come in line for the lock
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
	timer := time.NewTimer(late)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-timer.C: // a context of a caller's own, which does not keep what it says
		return false
	}
}

// late is how late the timer of a ctx may be, on a machine that stands still now and then.
const late = time.Second
