package bounds_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
)

// An address is what a pool is made for.
type address struct {
	hostPort string
	tls      *tls.Config // nil: plain
	db       int         // not 0, so that each connection has to SELECT
}

const (
	user     = "app"
	password = "swordfish"
)

func (a address) options(more ...redis.DialOption) []redis.DialOption {
	return append([]redis.DialOption{redis.DialUsername(user), redis.DialPassword(password), redis.DialDatabase(a.db)}, more...)
}

func (a address) dial() (redis.Conn, error) { return redis.Dial("tcp", a.hostPort, a.options()...) }

// A kind is a way to make a pool.
type kind struct {
	name    string
	tls     bool
	servers int  // 0: 1
	dials   bool // it shows as well as any what happens in the course of dialling
	busy    bool // another call of the same Client waits for the server on the only connection
	make    func(a address) redimutex.Pool
}

func (k kind) count() int { return max(k.servers, 1) }

// kinds are pools as programs have them. Most of them know of no deadline in some phase.
func kinds() []kind {
	return []kind{
		{name: "as redigo's documentation has it", dials: true, make: documented},
		{name: "NewPool", dials: true, make: newPoolOf},
		{name: "NewPool, TLS", tls: true, make: newPoolOf},
		{name: "NewPool, idle for too long", dials: true, make: func(a address) redimutex.Pool { return idled(newPool(a)) }},
		{name: "NewPool, TLS, idle for too long", tls: true, make: func(a address) redimutex.Pool { return idled(newPool(a)) }},
		{name: "NewPool, own net dial without ctx", make: func(a address) redimutex.Pool {
			return newPool(a, redis.DialNetDial(net.Dial))
		}},
		{name: "IdleTimeout passed", dials: true, make: func(a address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 3, IdleTimeout: time.Nanosecond, Dial: a.dial}
		}},
		{name: "IdleTimeout passed, redis.DialContext", dials: true, make: func(a address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 3, IdleTimeout: time.Nanosecond, DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", a.hostPort, a.options()...)
			}}
		}},
		{name: "MaxConnLifetime passed", make: func(a address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 3, MaxConnLifetime: time.Nanosecond, Dial: a.dial}
		}},
		{name: "TestOnBorrowContext ignores its ctx", make: func(a address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 3, Dial: a.dial, TestOnBorrowContext: func(_ context.Context, c redis.Conn, _ time.Time) error {
				_, err := c.Do("PING")
				return err
			}}
		}},
		{name: "no timeouts", make: func(a address) redimutex.Pool { return &redis.Pool{MaxIdle: 3, Dial: a.dial} }},
		{name: "connections that know no timeouts", make: func(a address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 3, Dial: func() (redis.Conn, error) {
				c, err := a.dial()
				if err != nil {
					return nil, err
				}
				return struct{ redis.Conn }{c}, nil
			}}
		}},
		{name: "Get and nothing else", make: func(a address) redimutex.Pool {
			return getAlone{&redis.Pool{MaxIdle: 3, Dial: a.dial}}
		}},
		{name: "MaxActive 1, in use", busy: true, make: func(a address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 1, MaxActive: 1, Dial: a.dial}
		}},
		{name: "MaxActive 1 and Wait, in use", busy: true, make: func(a address) redimutex.Pool {
			return &redis.Pool{MaxIdle: 1, MaxActive: 1, Wait: true, Dial: a.dial}
		}},
		{name: "Multiplex", make: func(a address) redimutex.Pool {
			return redimutex.Multiplex(&redis.Pool{MaxIdle: 3, Dial: a.dial}, 1)
		}},
		{name: "Multiplex of NewPool", make: func(a address) redimutex.Pool { return redimutex.Multiplex(newPool(a), 1) }},
		{name: "three servers", servers: 3, make: documented},
		{name: "three servers, NewPool", servers: 3, make: newPoolOf},
	}
}

func documented(a address) redimutex.Pool {
	return &redis.Pool{
		MaxIdle:     3,
		IdleTimeout: 240 * time.Second,
		Dial: func() (redis.Conn, error) {
			c, err := redis.Dial("tcp", a.hostPort)
			if err != nil {
				return nil, err
			}
			if _, err := c.Do("AUTH", user, password); err != nil {
				c.Close()
				return nil, err
			}
			if _, err := c.Do("SELECT", a.db); err != nil {
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

// idled has a pool find all of its connections idle for too long.
func idled(p redimutex.Pool) redimutex.Pool {
	p.(*redis.Pool).IdleTimeout = time.Nanosecond
	return p
}

func newPoolOf(a address) redimutex.Pool { return newPool(a) }

func newPool(a address, opts ...redis.DialOption) redimutex.Pool {
	scheme := "redis"
	if a.tls != nil {
		scheme = "rediss"
		opts = append(opts, redis.DialTLSConfig(a.tls))
	}
	p, err := redimutex.NewPool(fmt.Sprintf("%s://%s:%s@%s/%d", scheme, user, password, a.hostPort, a.db), opts...)
	if err != nil {
		panic(err)
	}
	return p
}

// getAlone hides what a *redis.Pool has beside Get.
type getAlone struct{ pool *redis.Pool }

func (p getAlone) Get() redis.Conn { return p.pool.Get() }
func (p getAlone) Close() error    { return p.pool.Close() }
