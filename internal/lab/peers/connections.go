package peers

import (
	"context"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// A Dialer opens a connection to one server, by whatever path leads there.
type Dialer func(ctx context.Context) (net.Conn, error)

// To returns a Dialer that connects directly to an address.
func To(addr string) Dialer {
	return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) }
}

// Pool returns a redigo pool like that of a program that knows nothing of locks. Without a timeout its connections wait for a
// reply for ever.
func Pool(d Dialer, timeout time.Duration) *redis.Pool {
	return &redis.Pool{
		MaxIdle: 100,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			c, err := d(ctx)
			if err != nil {
				return nil, err
			}
			return redis.NewConn(c, timeout, timeout), nil
		},
	}
}

// GoRedis returns the options of a client of go-redis for one server.
func GoRedis(d Dialer) *goredis.Options {
	return &goredis.Options{Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return d(ctx) }}
}

// Without this, go-redis would write to standard error about connections that were broken on purpose.
func init() { logging.Disable() }
