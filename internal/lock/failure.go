package lock

import "github.com/redimutex/redimutex/internal/quorum"

// A Kind says what a Failure means to the caller.
type Kind int8

const (
	Servers Kind = iota // the servers have said no; Failure.Servers says how
	Busy                // somebody else of this process has the lock, or asks for it
	Ended               // the caller's ctx has ended
	Closed              // the Engine was closed
)

// A Failure is how a call ended without success.
type Failure struct {
	Kind    Kind
	Servers *quorum.Failure // Busy, Ended: what stood in the way when the servers were last heard, or nil
	Waited  bool            // Ended: the call had waited for the lock
}
