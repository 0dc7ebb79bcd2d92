package quorum

import (
	"errors"

	"github.com/redimutex/redimutex/internal/server"
)

type Kind int8

const (
	Contended   Kind = iota // another holder has the lock
	Unavailable             // too few servers answered; a later try may succeed
	Refused                 // servers refused, and will refuse again
	Missing                 // the lock that was to be extended or released is gone
	Taken                   // another process holds it
	Lapsed                  // the ticket of the try is no longer queued; nothing was done
	Ended                   // the caller's ctx has ended
	Closed                  // the Client was closed
)

type Failure struct {
	Kind   Kind
	Errs   []error  // by server: why its vote does not count; nil: it voted
	Before *Failure // with Ended: what stood in the way before; nil: not known

	// With Contended: the reply with the most time left. With Missing and Taken: Which is the lost key. Holder is the token that
	// has a majority, if that is known, or else the token of a Taker in its first step.
	server.Reply
}

var (
	errSlow     = errors.New("granted too late: less than half of the lease was left")
	errGivenUp  = errors.New("granted too late: the caller had given up")
	errLost     = errors.New("it does not have the lock")
	errLateTry  = errors.New("no answer to a try for this lock") // the server has no vote while that try may still be executed
	ErrNoAnswer = errors.New("no answer yet")                    // when the round was decided, or the caller's time was over
)

// Unanswered returns the failure of a try that no server has answered yet.
func (q *Quorum) Unanswered() *Failure { return newTally(len(q.servers)).failure(Unavailable, nil) }
