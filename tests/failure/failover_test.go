package failure_test

import (
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A switchboard is the address of the present primary, as a Sentinel or a DNS name would tell it.
type switchboard struct{ addr atomic.Pointer[string] }

func (s *switchboard) to(addr string) { s.addr.Store(&addr) }

// pool returns a pool without a role check.
func (s *switchboard) pool(t *testing.T) *redis.Pool {
	p := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", *s.addr.Load()) }}
	t.Cleanup(func() { p.Close() })
	return p
}
