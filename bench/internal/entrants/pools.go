package entrants

import (
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

// connections is how many connections a process keeps, if its library has a pool. Only the case with a waiting crowd could use
// more at once. In that case it is also the limit.
const connections = 128

// pool returns the redigo pool for bare commands and redsync.
func (e Env) pool() *redis.Pool { return e.sized(peers.Pool(e.dial, 0)) }

// ourPool returns the pool that NewPoolAt makes, with another size.
func (e Env) ourPool(addr string) *redis.Pool {
	return e.sized(redimutex.NewPoolAt("tcp", addr, redis.DialContextFunc(e.Requests.Dial)))
}

func (e Env) sized(p *redis.Pool) *redis.Pool {
	p.MaxIdle = connections
	if e.Crowd {
		p.MaxActive, p.Wait = connections, true
	}
	return p
}

// plain returns a pool as the documentation of redigo makes it.
func (e Env) plain() *redis.Pool {
	return &redis.Pool{
		MaxIdle:     3,
		IdleTimeout: 240 * time.Second,
		Dial: func() (redis.Conn, error) {
			return redis.Dial("tcp", e.Addrs[0], redis.DialContextFunc(e.Requests.Dial))
		},
		TestOnBorrow: func(c redis.Conn, used time.Time) error {
			if time.Since(used) < time.Minute {
				return nil
			}
			_, err := c.Do("PING")
			return err
		},
	}
}

// goRedis returns the client for redislock, and for one of the rows of redsync.
func (e Env) goRedis() *goredis.Client {
	o := peers.GoRedis(e.dial)
	o.PoolSize = connections
	o.PoolTimeout = time.Hour // otherwise it would fail where the others wait for a connection
	return goredis.NewClient(o)
}
