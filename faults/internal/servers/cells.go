package servers

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
)

// A cell is one operation of one feature under one refusal.
type cell struct {
	feature string
	verb    verb
	client  *redimutex.Client
	mutex   *redimutex.Mutex
	lease   *redimutex.Lease
	done    chan struct{} // closed when the operation is over
	err     error         // what it returned, or panicked with
	seen    atomic.Int32  // tries and renewals that have failed
	renewed atomic.Int32  // renewals that are over, in whichever way
}

// A verb is an operation.
type verb struct {
	name  string
	holds bool // the lock is held before
	act   func(c *cell) error
}

// patient is the time that calls with a ctx have. More than one try fits in.
const patient = 300 * time.Millisecond

var verbs = []verb{
	{"Lock", false, func(c *cell) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err, _ = v.(error)
			}
		}()
		c.mutex.Lock()
		return nil
	}},
	{"LockContext", false, func(c *cell) error { return c.mutex.LockContext(context.Background(), patient) }},
	{"TryLock", false, func(c *cell) error { return c.mutex.TryLockContext(context.Background()) }},
	{"renewal", true, func(c *cell) error {
		began := c.renewed.Load()
		soon(func() bool { return c.renewed.Load() != began || c.lease.Err() != nil })
		return nil
	}},
	{"Extend", true, patiently(func(ctx context.Context, c *cell) error { return c.lease.Extend(ctx, heldTTL) })},
	{"Unlock", true, patiently(func(ctx context.Context, c *cell) error { return c.mutex.UnlockContext(ctx) })},
}

func patiently(act func(context.Context, *cell) error) func(*cell) error {
	return func(c *cell) error {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		return act(ctx, c)
	}
}

const (
	heldTTL    = 2 * time.Second
	renewedTTL = 1200 * time.Millisecond // of the cells whose renewal is to meet the refusal
)

// newCell makes a cell, and has the lock held if the operation is one of a holder.
func newCell(c *redimutex.Client, feature string, v verb) (*cell, error) {
	x := &cell{feature: feature, verb: v, client: c, done: make(chan struct{})}
	ttl := heldTTL
	if v.name == "renewal" {
		ttl = renewedTTL
	}
	failed := func(e redimutex.Event) {
		if e.Err != nil {
			x.seen.Add(1)
		}
	}
	x.mutex = c.Mutex(feature+" "+v.name, redimutex.WithTTL(ttl), redimutex.WithTrace(&redimutex.Trace{
		Attempt: failed,
		Renewed: func(e redimutex.Event) {
			failed(e)
			x.renewed.Add(1)
		},
	}))
	if !v.holds {
		return x, nil
	}
	if err := x.mutex.LockContext(context.Background(), forever); err != nil {
		return nil, err
	}
	x.lease = x.mutex.Lease()
	return x, nil
}

func (x *cell) String() string { return x.feature + " " + x.verb.name }

// begin starts the operation.
func (x *cell) begin() {
	go func() {
		defer close(x.done)
		x.err = x.verb.act(x)
	}()
}

// struck waits until the operation has met the refusal: it is over, or it is Lock and repeats itself.
func (x *cell) struck(r *refusal) {
	enough := int32(2)
	if r.class == forGood {
		enough = 10 // it may meet broken connections before the refusal ends it
	}
	soon(func() bool { return x.over() || x.verb.name == "Lock" && x.seen.Load() >= enough })
}

func (x *cell) over() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// weather are the words of a network that fails, which may come along with a refusal; and of a ctx that is over, on a machine
// that is slower than the caller is patient.
var weather = regexp.MustCompile("deadline exceeded|no answer|does not answer|EOF|reset|broken pipe|closed|refused|timeout")

// verdict says what is wrong with how the operation ended during the refusal, if anything.
func (x *cell) verdict(r *refusal) string {
	var node *redimutex.NodeError
	switch err := x.err; {
	case err == nil:
		return "" // whether that is true will be seen
	case !x.verb.holds && x.mutex.Lease() != nil:
		return fmt.Sprintf("%s: an error, and a lease: %v", x, err)
	case errors.Is(err, redimutex.ErrLost) && x.verb.holds:
		return ""
	case errors.Is(err, redimutex.ErrLocked), !errors.As(err, &node):
		return fmt.Sprintf("%s: not the error of a server: %v", x, err)
	case errors.Is(err, redimutex.ErrUnavailable) && weather.MatchString(node.Error()):
		return ""
	case r.class == unseen:
		return fmt.Sprintf("%s failed: %v", x, err)
	case errors.Is(err, redimutex.ErrUnavailable) != (r.class != forGood):
		return fmt.Sprintf("%s: of the wrong kind: %v", x, err)
	case !r.words.MatchString(node.Error()):
		return fmt.Sprintf("%s: not in the server's words: %v", x, err)
	}
	return ""
}

// met reports whether the operation has met the refusal in the server's words.
func (x *cell) met(r *refusal) bool { return x.err != nil && r.words.MatchString(x.err.Error()) }

// on returns what the server has under the key. A server that says BUSY while it runs a script of another is asked again.
func (x *cell) on(s *site) (value string) {
	soon(func() (answered bool) {
		var err error
		value, err = redis.String(s.do("GET", x.mutex.Key()))
		return err == nil || errors.Is(err, redis.ErrNil)
	})
	return value
}

// holding says whether the lease claims to be valid although the server does not know it.
func (x *cell) holding(s *site) string {
	on := x.on(s)
	if l := x.mutex.Lease(); l != nil && l.Err() == nil && on != l.Token() {
		return fmt.Sprintf("%s: a false hold: the server has %q", x, on)
	}
	return ""
}

// truth says what is wrong with what the operation has left: a false hold, or a lock that was given back
// and is still there.
func (x *cell) truth(s *site) string {
	if problem := x.holding(s); problem != "" {
		return problem
	}
	on := x.on(s)
	if x.verb.name == "Unlock" && x.err == nil && x.feature != "reuse" && on == x.lease.Token() {
		return fmt.Sprintf("%s: unlocked, and the server still has it", x)
	}
	return ""
}

// again says what is wrong with the lock when the refusal is over: it has to work as if nothing had
// been. A multiplexed Client does not dial more than twice a second while that fails, so it may repeat for a
// moment what it was told before.
func (x *cell) again(r *refusal, s *site) string {
	stale := func(err error) bool {
		return errors.Is(err, redimutex.ErrUnavailable) || r.words.MatchString(err.Error())
	}
	if x.mutex.Lease() != nil {
		if err := x.mutex.UnlockContext(context.Background()); err != nil && !errors.Is(err, redimutex.ErrLost) && !stale(err) {
			return fmt.Sprintf("%s: Unlock afterwards: %v", x, err)
		}
	}
	var err error
	soon(func() bool {
		err = x.mutex.LockContext(context.Background(), forever)
		return err == nil || !stale(err)
	})
	if err != nil {
		return fmt.Sprintf("%s: Lock afterwards: %v", x, err)
	}
	if problem := x.holding(s); problem != "" {
		return problem + " (afterwards)"
	}
	token := x.mutex.Lease().Token()
	err = x.mutex.UnlockContext(context.Background())
	switch {
	case err == nil, errors.Is(err, redimutex.ErrLost):
		return ""
	case errors.Is(err, redimutex.ErrUnavailable) && weather.MatchString(err.Error()): // a late machine; it goes on in the background
		if soon(func() bool { return x.on(s) != token }) {
			return ""
		}
	}
	return fmt.Sprintf("%s: the second Unlock afterwards: %v", x, err)
}
