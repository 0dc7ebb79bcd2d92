// Package failure_test tests the promise over servers that refuse, hang, forget, are killed, demoted, replicated or restarted
// without data; over connections that break, fall silent or run out; and with everything at once.
package failure_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	newClient = locktest.Client
	newMutex  = locktest.Mutex
)

func never(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		t.Error("the function ran without the lock")
		return nil
	}
}

// A switchboard has the address of the current primary, as a Sentinel or a DNS name would.
type switchboard struct{ addr atomic.Pointer[string] }

// at returns a switchboard with that address.
func at(addr string) *switchboard {
	s := new(switchboard)
	s.to(addr)
	return s
}

func (s *switchboard) to(addr string) { s.addr.Store(&addr) }

// pool returns a pool without a role check.
func (s *switchboard) pool(t *testing.T) *redis.Pool {
	p := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", *s.addr.Load()) }}
	t.Cleanup(func() { p.Close() })
	return p
}
