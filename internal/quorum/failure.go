package quorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

type Kind int8

const (
	Contended   Kind = iota // another holder has the lock
	Unavailable             // too few servers answered; it may be better later
	Refused                 // servers said no, and will again
	Missing                 // the lock that was to be extended or released is gone
	Taken                   // another process holds it
	Lapsed                  // the ticket of the try is no longer queued; nothing was done
	Ended                   // the caller's ctx has ended
	Closed                  // the Client was closed
)

type Failure struct {
	Kind   Kind
	Errs   []error       // by server: why it did not vote; nil: it did
	Holder string        // with Contended: the token of a holder; with Taken: that of a majority; or "", if it is not known
	Left   time.Duration // with Contended: what is left of its TTL
	Which  int           // with Missing and Taken: which of the keys it was, from 0
	Before *Failure      // with Ended: what stood in the way until then; nil: nothing is known of that

	// With Contended and a ticket:
	Now     int64     // a server's clock in µs
	Waiting int       // how many wait in that server's queue
	Sent    time.Time // just before the server was asked
}

func (f *Failure) heard(r server.Reply) {
	if f.Sent.IsZero() || r.Left > f.Left {
		f.Holder, f.Left, f.Now, f.Waiting, f.Sent = r.Holder, r.Left, r.Now, r.Waiting, r.Sent
	}
}

var (
	errSlow     = errors.New("granted too late: less than half of the lease was left")
	errGivenUp  = errors.New("granted too late: the caller had given up")
	errLost     = errors.New("it does not have the lock")
	errLateTry  = errors.New("no answer to a try for this lock") // it has no vote while that may be executed
	errNoAnswer = errors.New("no answer yet")                    // when all was decided, or the caller's time was over
)

// silentError is why a server was skipped.
type silentError time.Duration

func (e silentError) Error() string {
	return fmt.Sprintf("no answer to an earlier command for %v", time.Duration(e).Round(time.Millisecond))
}

func (silentError) Timeout() bool { return true }
