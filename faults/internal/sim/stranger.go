package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A stranger is a client that knows neither this library nor its queue. It locks as the documentation of Redis says.
type stranger struct {
	world  *world
	random *rand.Rand
	pool   *redis.Pool
	key    string
}

const strangerScript = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

func (s *stranger) lock(ctx context.Context, blocking bool) *hold {
	for tries := 0; blocking || ctx.Err() == nil && tries < 8; tries++ {
		name, sent := token(s.random), time.Now()
		if s.random.Float64() < s.world.Weather.Rob {
			s.do("DEL", s.key)
			if s.random.IntN(2) == 0 {
				return nil // it leaves the key to the others
			}
		}
		if s.do("SET", s.key, name, "NX", "PX", ttl.Milliseconds()) == "OK" {
			until := sent.Add(lasts)
			if time.Now().Before(until) {
				h := &hold{token: name, valid: func() bool { return time.Now().Before(until) }}
				if s.world.Kinds {
					h.keys = []string{s.key}
				}
				return h
			}
		}
		s.world.sleep(between(s.random, minPause, maxPause))
	}
	return nil
}

func (s *stranger) unlock(h *hold) { s.do("EVAL", strangerScript, 1, s.key, h.token) }

func (s *stranger) done(*hold) <-chan struct{} { return nil }

func (s *stranger) do(command string, args ...any) any {
	c := s.pool.Get()
	defer c.Close()
	reply, err := c.Do(command, args...)
	if err != nil {
		return nil
	}
	return reply
}
