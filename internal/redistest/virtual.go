package redistest

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// Virtual returns an embedded server whose clock is that of the testing/synctest bubble that calls it, and a pool for the
// server. No sockets are involved, so virtual time advances whenever all goroutines wait.
func Virtual(t testing.TB) (*miniredis.Miniredis, *redis.Pool) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	p := &redis.Pool{MaxIdle: 100, Dial: func() (redis.Conn, error) {
		c, err := m.Dial()
		if err != nil {
			return nil, err
		}
		return redis.NewConn(c, 0, 0), nil
	}}
	t.Cleanup(func() {
		p.Close()
		m.Close()
	})
	return m, p
}
