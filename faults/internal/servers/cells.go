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
	renewed atomic.Int32  // renewals that are over, failed or not
}

// A verb is an operation.
type verb struct {
	name  string
	holds bool // the operation needs a lock that is held
	act   func(c *cell) error
}

// patient is how long a call with a ctx may last. That is enough for more than one try.
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

// newCell makes a cell. If the operation is one of a holder, newCell takes the lock.
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

// struck waits until the operation has met the refusal: until it is over or, if it is Lock, has repeated its try.
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

// weather matches the errors of a network that fails, which may come along with a refusal. It also matches the errors of a ctx
// that has ended, because a slow machine may need longer than the caller waits.
var weather = regexp.MustCompile("deadline exceeded|no answer|does not answer|EOF|reset|broken pipe|closed|refused|timeout")

// verdict says what is wrong with how the operation ended during the refusal, if anything.
func (x *cell) verdict(r *refusal) string {
	var node *redimutex.NodeError
	switch err := x.err; {
	case err == nil:
		return "" // truth finds out whether that is so
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

// on returns what the server has under the key. While the server is BUSY with a script of another client, on asks again.
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

// truth says what is wrong with what the operation has left behind: a false hold, or a released lock that is still on the
// server.
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

// again says what is wrong with the lock when the refusal is over: it has to work as if nothing had happened. A multiplexed
// Client whose dials fail dials no more than twice a second. So it may return the old error for a moment.
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
	case errors.Is(err, redimutex.ErrUnavailable) && weather.MatchString(err.Error()): // the release goes on in the background
		if soon(func() bool { return x.on(s) != token }) {
			return ""
		}
	}
	return fmt.Sprintf("%s: the second Unlock afterwards: %v", x, err)
}
