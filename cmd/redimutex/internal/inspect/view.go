// Package inspect looks at what stands on a server: locks with their holders and queues, and the locks
// among all keys. It changes nothing.
package inspect

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/server"
)

// A View is what one server has to say about a lock. The zero View is of one that is free, and times
// that can't be told are 0: those that can be are more.
type View struct {
	Kind    *server.Kind  // nil: it is free. A plain Mutex is a Writer where waiters show that readers use the key
	Holder  string        // the token; "" if many may hold it
	Left    time.Duration // what is left of its TTL; negative when the key has none
	Holders []Holder      // if many may hold it: those whose leases end last
	Holding int           // how many hold it
	Fence   int64         // the last fence that was given for the key; 0 if none is known, and of permits
	Age     time.Duration // since the lock was given to its holder; see hold
	Waiting int           // how many are in the queue, or show without one that they wait
	Looked  time.Duration // since any of them last looked at the queue
	Queue   []Waiter      // the first of them, in order
	Err     error         // what the server said instead, if this key is no lock or may not be read

	marks []string // of those that show that they wait, where there is a queue too
}

// Longest is how many bytes of a value are looked at, and one more to see that there are more. No lock has so long a token.
// A value may have 200 MB, and sending that holds the server up.
const Longest = 1 << 16

// perKey is how many commands tell all about one key, except its holders where there are many.
const perKey = 9

// Look looks at locks, and at so many waiters of each, without changing anything. It takes one round trip, and a second
// one for the holders of a lock that many hold, for which waiters listen, and for who of them waits in the queue and who
// polls. What concerns one key alone is the Err of its View. It uses plain commands, so that it works for a user who may
// only read. They are not atomic: the time may be that of a holder that came just after the one whose token it is.
func Look(ctx context.Context, s *server.Server, keys []string, waiters int, timeout time.Duration) ([]View, error) {
	ses := s.Session(ctx, timeout, keys[0])
	commands := make([][]any, 0, 1+perKey*len(keys))
	commands = append(commands, []any{"TIME"})
	for _, key := range keys {
		queue := server.QueueKey(key)
		_, writers, waiting, entitled := server.PhaseKeys(key)
		commands = append(commands, []any{"GETRANGE", key, 0, Longest}, []any{"PTTL", key}, []any{"GETRANGE", server.FenceKey(key), 0, 20},
			[]any{"ZCARD", queue}, []any{"PTTL", queue}, front(queue, waiters),
			last(writers), last(waiting), last(entitled))
	}
	replies, err := ses.Pipeline(commands)
	if err != nil {
		return nil, err
	}
	now := clockOf(replies[0])
	views := make([]View, len(keys))
	m := meeting{now: now}
	for i := range views {
		views[i].read(replies[1+i*perKey:][:perKey], now)
		m.add(&views[i], keys[i])
	}
	return views, m.ask(ses)
}

// clockOf reads the reply to TIME, in µs; 0 if we may not know it.
func clockOf(reply any) int64 {
	v, err := redis.Int64s(reply, nil)
	if err != nil || len(v) != 2 {
		return 0
	}
	return v[0]*1e6 + v[1]
}

// read takes in the replies about one key. What the user may not see besides the lock itself is unknown, and the rest is
// still of use.
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
	case left == -2: // there is no key, or it has expired in between
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
	if err == nil && v.Kind != server.Semaphore { // an earlier Mutex left it: permits have none
		v.Fence = fence
	}
	if v.Holding == 1 {
		v.Age = hold(v.Fence, now)
	}
	v.readQueue(replies[3:6], now)
	v.readMarks(replies[6:], now)
}

// hold tells since when a lock is held from the last fence that was given: that is the server's clock at the
// time, except when the clock was set back, or was behind that of another server of a Redlock. A
// holder without fencing leaves no trace of when it came. If it shares the key with others that use
// it, this is the time since the last of those came: an upper
// bound. It is 0 if it is not known.
func hold(fence, now int64) time.Duration {
	const skew, year = int64(time.Second / time.Microsecond), int64(365 * 24 * time.Hour / time.Microsecond)
	age := now - fence
	if now == 0 || fence == 0 || age < -skew || age > year {
		return 0
	}
	return time.Duration(max(age, 1)) * time.Microsecond
}

// refusal returns the error of the server that stands in the place of a reply, or nil.
func refusal(reply any) error {
	var said redis.Error
	if err, ok := reply.(error); ok && errors.As(err, &said) {
		return said
	}
	return nil
}

func wrongType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }
