package server

import (
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A View is what one server has to say about a lock.
type View struct {
	Held   bool
	Holder string        // the token
	Left   time.Duration // what is left of its TTL; negative when the key has none
	Fence  int64         // the last fence that was given for the key; 0 if none is known
}

// Inspect looks at a lock without changing it. It uses plain commands, so that it works for a user
// who may only read. They are not atomic: the time may be that of a holder who came just after the
// one whose token it is.
func (s *Server) Inspect(key string, timeout time.Duration) (View, error) {
	ses, err := s.open(time.Now().Add(timeout), key)
	if err != nil {
		return View{}, err
	}
	defer ses.close()
	var v View
	v.Holder, err = redis.String(ses.do("GET", key))
	if v.Held = err == nil; !v.Held && !errors.Is(err, redis.ErrNil) {
		return View{}, err
	}
	if v.Held {
		left, err := redis.Int64(ses.do("PTTL", key))
		if err != nil {
			return View{}, err
		}
		v.Left = time.Duration(left) * time.Millisecond
		if left == -2 { // it has expired in between
			v = View{}
		}
	}
	var refused redis.Error
	v.Fence, err = redis.Int64(ses.do("GET", FenceKey(key)))
	if err != nil && !errors.Is(err, redis.ErrNil) && !errors.As(err, &refused) {
		return View{}, err
	}
	return v, nil // without permission to read the fence, the rest is still of use
}
