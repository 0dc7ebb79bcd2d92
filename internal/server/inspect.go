package server

import (
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A View is what one server has to say about a lock. The zero View is of one that is free, and times
// that can't be told are 0: those that can be are more.
type View struct {
	Held    bool
	Holder  string        // the token
	Left    time.Duration // what is left of its TTL; negative when the key has none
	Fence   int64         // the last fence that was given for the key; 0 if none is known
	Age     time.Duration // since the lock was given to its holder; see hold
	Waiting int           // how many are in the queue
	Looked  time.Duration // since any of them last looked at the queue
	Queue   []Waiter      // the first of them, in order
	Err     error         // what the server said instead, if this key is no lock or may not be read
}

// Inspect looks at a lock and the first hundred in its queue; see InspectAll.
func (s *Server) Inspect(key string, timeout time.Duration) (View, error) {
	views, err := s.InspectAll([]string{key}, 100, timeout)
	if err != nil {
		return View{}, err
	}
	if err := views[0].Err; err != nil {
		return View{}, err
	}
	return views[0], nil
}

// InspectAll looks at locks, and at so many waiters of each, without changing anything. It takes one
// round trip, and a second one to see which waiters listen. What concerns one key alone is the
// Err of its View. It uses plain commands, so that it works for a user who may only read. They are not
// atomic: the time may be that of a holder who came just after the one whose token it is.
//
// On a cluster that the pool knows as one, each key costs round trips of its own.
func (s *Server) InspectAll(keys []string, waiters int, timeout time.Duration) ([]View, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	deadline := time.Now().Add(timeout)
	ses, err := s.open(deadline, keys[0])
	if err != nil {
		return nil, err
	}
	defer ses.close()
	if !ses.pinned || len(keys) == 1 {
		return ses.inspect(keys, waiters)
	}
	views := make([]View, 0, len(keys))
	for _, key := range keys {
		v, err := s.InspectAll([]string{key}, waiters, time.Until(deadline))
		if err != nil {
			return nil, err
		}
		views = append(views, v...)
	}
	return views, nil
}

// perKey is how many commands tell all about one key.
const perKey = 6

// inspect looks at locks of one server.
func (ses session) inspect(keys []string, waiters int) ([]View, error) {
	commands := make([][]any, 0, 1+perKey*len(keys))
	commands = append(commands, []any{"TIME"})
	for _, key := range keys {
		queue := QueueKey(key)
		commands = append(commands, []any{"GET", key}, []any{"PTTL", key}, []any{"GET", FenceKey(key)},
			[]any{"ZCARD", queue}, []any{"PTTL", queue}, []any{"ZRANGE", queue, 0, waiters - 1, "WITHSCORES"})
		if waiters <= 0 {
			commands[len(commands)-1] = []any{"ZRANGE", queue, 1, 0}
		}
	}
	replies, err := ses.doAll(commands)
	if err != nil {
		return nil, err
	}
	now := clockOf(replies[0])
	views := make([]View, len(keys))
	var channels []string
	for i := range views {
		channels = append(channels, views[i].read(replies[1+i*perKey:][:perKey], now)...)
	}
	if len(channels) == 0 {
		return views, nil
	}
	return views, ses.meet(views, channels)
}

// clockOf reads the reply to TIME, in µs; 0 if we may not know it.
func clockOf(reply any) int64 {
	v, err := redis.Int64s(reply, nil)
	if err != nil || len(v) != 2 {
		return 0
	}
	return v[0]*1e6 + v[1]
}

// read takes in the replies about one key, and returns the channels on which its waiters listen. What
// the user may not see besides the lock itself is unknown, and the rest is still of use.
func (v *View) read(replies []any, now int64) (channels []string) {
	holder, err := redis.String(replies[0], refusal(replies[0]))
	if v.Held = err == nil; !v.Held && !errors.Is(err, redis.ErrNil) {
		v.Err = err
		return nil
	}
	if v.Held {
		left, err := redis.Int64(replies[1], refusal(replies[1]))
		switch {
		case err != nil:
			v.Err = err
			return nil
		case left == -2: // it has expired in between
			v.Held = false
		default:
			v.Holder, v.Left = holder, time.Duration(left)*time.Millisecond
		}
	}
	fence := replies[2]
	if refusal(fence) == nil {
		if v.Fence, err = redis.Int64(fence, nil); err != nil && !errors.Is(err, redis.ErrNil) {
			v.Err = err
			return nil
		}
	}
	if v.Held {
		v.Age = hold(v.Fence, now)
	}
	v.Waiting, _ = redis.Int(replies[3], nil)
	if left, err := redis.Int64(replies[4], nil); err == nil && left >= 0 {
		v.Looked = max(queueTTL-time.Duration(left)*time.Millisecond, time.Millisecond)
	}
	members, _ := redis.Strings(replies[5], nil)
	for i := 0; i+1 < len(members); i += 2 {
		w, channel := waiter(members[i], members[i+1], now)
		v.Queue = append(v.Queue, w)
		channels = append(channels, channel)
	}
	return channels
}

// hold tells since when a lock is held from the last fence that was given: that is the server's clock at the
// time, except when the clock was set back, or was behind that of another server of a Redlock. A
// holder without fencing leaves no trace of when he came. If he shares the key with others who use
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
	if e, ok := reply.(redis.Error); ok {
		return e
	}
	return nil
}

// doAll runs commands in one round trip. An error of the connection is returned; errors of the server
// stand in replies.
func (ses session) doAll(commands [][]any) (replies []any, err error) {
	replies = make([]any, len(commands))
	if !ses.pinned {
		for _, c := range commands {
			if err := ses.conn.Send(c[0].(string), c[1:]...); err != nil {
				return nil, normalize(err)
			}
		}
		if err := ses.conn.Flush(); err != nil {
			return nil, normalize(err)
		}
	}
	for i, c := range commands {
		var reply any
		var err error
		if ses.pinned { // only a command that goes alone is repeated where its slot has moved to
			reply, err = ses.do(c[0].(string), c[1:]...)
		} else {
			reply, err = ses.receive(max(time.Until(ses.deadline), time.Microsecond))
		}
		var refused redis.Error
		switch {
		case err == nil:
			replies[i] = reply
		case errors.As(err, &refused):
			replies[i] = refused
		default:
			return nil, err
		}
	}
	return replies, nil
}
