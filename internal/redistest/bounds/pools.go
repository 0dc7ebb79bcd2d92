package bounds

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// An Address is the server that a pool is made for.
type Address struct {
	HostPort string
	TLS      *tls.Config // nil: plain
	DB       int         // not 0, so that each connection must SELECT
}

// The user of the pools, so that each connection must AUTH; see [AddUser].
const (
	user     = "app"
	password = "swordfish"
)

// AddUser adds the user of the pools to a server.
func AddUser(s *redistest.Server) {
	s.SetUser(user, "on", ">"+password, "~*", "&*", "+@all")
}

func (a Address) options(more ...redis.DialOption) []redis.DialOption {
	return append([]redis.DialOption{redis.DialUsername(user), redis.DialPassword(password), redis.DialDatabase(a.DB)}, more...)
}

func (a Address) dial() (redis.Conn, error) { return redis.Dial("tcp", a.HostPort, a.options()...) }

// A Kind is a way to make a pool.
type Kind struct {
	Name    string
	tls     bool
	servers int  // 0: 1
	Dials   bool // a good example of what happens while a connection is dialled
	shared  bool // many callers use a connection at once
	busy    bool // another call of the same Client waits for the server on the only connection
	make    func(a Address) redimutex.Pool
}

func (k Kind) count() int { return max(k.servers, 1) }

// Kinds returns pools as real programs have them. Most of them ignore the deadline in some phase.
func Kinds() []Kind {
	return []Kind{
		{Name: "as redigo's documentation has it", Dials: true, make: Documented},
		{Name: "NewPool", Dials: true, make: NewPool},
		{Name: "NewPool, TLS", tls: true, make: NewPool},
		{Name: "NewPool, idle for too long", Dials: true, make: func(a Address) redimutex.Pool { return idled(newPool(a)) }},
		{Name: "NewPool, TLS, idle for too long", tls: true, Dials: true, make: func(a Address) redimutex.Pool { return idled(newPool(a)) }},
		{Name: "NewPool, own net dial without ctx", Dials: true, make: func(a Address) redimutex.Pool {
			return newPool(a, redis.DialNetDial(net.Dial))
		}},
		{Name: "own pool, Dialer", make: func(a Address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 3, DialContext: redimutex.Dialer("tcp", a.HostPort, a.options()...)}
		}},
		{Name: "IdleTimeout passed", Dials: true, make: func(a Address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 3, IdleTimeout: time.Nanosecond, Dial: a.dial}
		}},
		{Name: "IdleTimeout passed, redis.DialContext", Dials: true, make: func(a Address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 3, IdleTimeout: time.Nanosecond, DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", a.HostPort, a.options()...)
			}}
		}},
		{Name: "MaxConnLifetime passed", make: func(a Address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 3, MaxConnLifetime: time.Nanosecond, Dial: a.dial}
		}},
		{Name: "TestOnBorrowContext ignores its ctx", make: func(a Address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 3, Dial: a.dial, TestOnBorrowContext: func(_ context.Context, c redis.Conn, _ time.Time) error {
				_, err := c.Do("PING")
				return err
			}}
		}},
		{Name: "no timeouts", make: func(a Address) redimutex.Pool { return &redis.Pool{MaxIdle: 3, Dial: a.dial} }},
		{Name: "connections that know no timeouts", make: func(a Address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 3, Dial: func() (redis.Conn, error) {
				c, err := a.dial()
				if err != nil {
					return nil, err
				}
				return struct{ redis.Conn }{c}, nil
			}}
		}},
		{Name: "Get and nothing else", make: NewGetAlone},
		{Name: "MaxActive 1, in use", busy: true, make: func(a Address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 1, MaxActive: 1, Dial: a.dial}
		}},
		{Name: "MaxActive 1 and Wait, in use", busy: true, make: func(a Address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 1, MaxActive: 1, Wait: true, Dial: a.dial}
		}},
		{Name: "WithMultiplexing", shared: true, Dials: true, make: func(a Address) redimutex.Pool { return &redis.Pool{MaxIdle: 3, Dial: a.dial} }},
		{Name: "WithMultiplexing, NewPool", shared: true, make: NewPool},
		{Name: "three servers", servers: 3, Dials: true, make: Documented},
		{Name: "three servers, NewPool", servers: 3, make: NewPool},
	}
}

// Documented returns a pool as in redigo's documentation.
func Documented(a Address) redimutex.Pool {
	return &redis.Pool{
		MaxIdle:     3,
		IdleTimeout: 240 * time.Second,
		Dial: func() (redis.Conn, error) {
			c, err := redis.Dial("tcp", a.HostPort)
			if err != nil {
				return nil, err
			}
			if _, err := c.Do("AUTH", user, password); err != nil {
				c.Close()
				return nil, err
			}
			if _, err := c.Do("SELECT", a.DB); err != nil {
				c.Close()
				return nil, err
			}
			return c, nil
		},
		TestOnBorrow: func(c redis.Conn, _ time.Time) error {
			_, err := c.Do("PING")
			return err
		},
	}
}

// idled makes a pool treat all its connections as idle for too long.
func idled(p redimutex.Pool) redimutex.Pool {
	p.(*redis.Pool).IdleTimeout = time.Nanosecond
	return p
}

// NewPool returns a pool made by redimutex.NewPool.
func NewPool(a Address) redimutex.Pool { return newPool(a) }

func newPool(a Address, opts ...redis.DialOption) redimutex.Pool {
	scheme := "redis"
	if a.TLS != nil {
		scheme = "rediss"
		opts = append(opts, redis.DialTLSConfig(a.TLS))
	}
	p, err := redimutex.NewPool(fmt.Sprintf("%s://%s:%s@%s/%d", scheme, user, password, a.HostPort, a.DB), opts...)
	if err != nil {
		panic(err)
	}
	return p
}

// GetAlone hides all methods of a *redis.Pool other than Get and Close.
type GetAlone struct{ pool *redis.Pool }

// NewGetAlone returns a GetAlone that dials a.
func NewGetAlone(a Address) redimutex.Pool {
	return GetAlone{&redis.Pool{MaxIdle: 3, Dial: a.dial}}
}

// Get returns a connection of the pool.
func (p GetAlone) Get() redis.Conn { return p.pool.Get() }

// Close closes the pool.
func (p GetAlone) Close() error { return p.pool.Close() }
