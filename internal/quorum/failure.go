package quorum

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what a Failure means to the caller.
type Kind int

const (
	Contended   Kind = iota // somebody else holds the lock
	Unavailable             // too few servers answered; it may be better later
	Refused                 // servers said no, and will again
	Missing                 // the lock that was to be extended or released is gone
	Taken                   // somebody else holds it
)

// A Failure is how an operation ended without success.
type Failure struct {
	Kind   Kind
	Nodes  []NodeFailure // with Unavailable and Refused, one for each server without a vote
	Holder string        // with Contended: the token of a holder
	Left   time.Duration // with Contended: what is left of its TTL

	// With Contended, with a queue, from the server that knows of the most waiters:
	Waiting int       // how many there are
	Now     int64     // the server's clock in µs
	Sent    time.Time // just before the server was asked
}

// A NodeFailure says why a server did not vote.
type NodeFailure struct {
	Node int
	Err  error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("quorum failure of kind %d: %v", f.Kind, f.Nodes)
}

var (
	// errSlow is the failure of a quorum that took so long that little of the lease was left.
	errSlow = errors.New("granted too late: less than half of the lease was left")
	// errGivenUp is the failure of a quorum that came when the caller's time was over.
	errGivenUp = errors.New("granted too late: the caller had given up")
	// errLateTry stands for a server that has not even answered the try for the lock yet.
	errLateTry = errors.New("no answer to the try for the lock")
	// errNoAnswer stands for a server that had not answered when the caller's time was over.
	errNoAnswer = errors.New("no answer yet")
)
