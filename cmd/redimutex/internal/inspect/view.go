// Package inspect looks at the keys of a server: locks with their holders and queues, and the locks among all keys. It changes
// nothing.
package inspect

import (
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/server"
)

// A View is one server's knowledge about a lock. The zero View is a free lock. Times that are unknown are 0; known times are
// not 0.
type View struct {
	Kind    *server.Kind  // nil: free. A plain Mutex counts as a Writer if waiters show that readers use the key
	Holder  string        // the token; "" if many may hold it
	Left    time.Duration // what is left of its TTL; negative if the key has none
	Holders []Holder      // if many may hold it: the holders whose leases end last
	Holding int           // how many hold it
	Fence   int64         // the last fence given for the key; 0 if none is known, and for permits
	Age     time.Duration // since the lock was given to its holder; see heldFor
	Waiting int           // how many wait in the queue, or show by a mark that they wait
	Looked  time.Duration // since a waiter last looked at the queue
	Queue   []Waiter      // the first waiters, in order
	Err     error         // the server's error, if the key is no lock or may not be read

	marks []string // of waiters that show that they wait, if there is a queue too
}

// Longest is how many bytes of a value are read, plus one to see that there are more. No lock has so long a token. A value may
// have 200 MB, and sending that would block the server.
const Longest = 1 << 16

// read reads the replies about one key. What the user may not see besides the lock itself stays unknown; the rest is still
// useful.
func (v *View) read(replies []any, now int64) {
	holder, err := redis.String(replies[0], refusal(replies[0]))
	left, unknown := redis.Int64(replies[1], refusal(replies[1]))
	switch {
	case err != nil && !wrongType(err):
		v.Err = err
		return
	case unknown != nil:
		v.Err = unknown
		return
	case left == -2: // the key does not exist, or has expired since
	case wrongType(err):
		v.Kind = server.Semaphore // unless it is no lock
	case holder == server.Reading:
		v.Kind = server.Reader
	default:
		v.Kind, v.Holder, v.Holding = server.Mutex, holder, 1
	}
	if v.Kind != nil {
		v.Left = time.Duration(left) * time.Millisecond
	}
	fence, err := redis.Int64(replies[2], refusal(replies[2]))
	if err == nil && v.Kind != server.Semaphore { // for permits it is the fence of an earlier Mutex
		v.Fence = fence
	}
	if v.Holding == 1 {
		v.Age = heldFor(v.Fence, now)
	}
	v.readQueue(replies[3:6], now)
	v.readMarks(replies[6:], now)
}

// heldFor returns how long the lock has been held, computed from the last fence: a fence is the server's clock when it was
// given, unless the clock was set back, or was behind that of another server of a Redlock. A holder without fencing leaves no
// trace of its beginning. If it shares the key with holders that use fencing, heldFor returns the time since the last of those
// began, an upper bound. It returns 0 if the time is unknown.
func heldFor(fence, now int64) time.Duration {
	const skew, year = int64(time.Second / time.Microsecond), int64(365 * 24 * time.Hour / time.Microsecond)
	age := now - fence
	if now == 0 || fence == 0 || age < -skew || age > year {
		return 0
	}
	return time.Duration(max(age, 1)) * time.Microsecond
}

// refusal returns the server's error that came in place of a reply, or nil.
func refusal(reply any) error {
	var said redis.Error
	if err, ok := reply.(error); ok && errors.As(err, &said) {
		return said
	}
	return nil
}

func wrongType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }
