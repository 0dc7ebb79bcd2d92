package redimutex

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/redisurl"
)

// A Pool supplies connections. *redis.Pool of redigo and *redisc.Cluster of mna/redisc fit as they are. If a Pool has
// GetContext(ctx), that is called instead of Get, and the wait for a connection ends with the node timeout. A type that embeds
// a *redis.Pool inherits its GetContext: if the type changes Get, it must change GetContext, too. If a connection has
// Bind(keys...), as those of redisc do, it is bound to the node that serves the key.
//
// A Pool can dial if it is a *redis.Pool or has a method Dial() (redis.Conn, error). A dialled connection replaces a broken
// one. While the pool is full, dialled connections also serve renewals, and releases in the background. They do not count
// against the pool's limit: there may be as many of them as that limit allows in the pool, and more for renewals and such
// releases. From any other Pool an operation takes up to 20 further connections, in place of broken ones.
//
// No other caller may have a connection until its Close. As redigo's, it returns a server's error as a [redis.Error] or an
// error that wraps one, and all pending replies from Do(""). Its commands have the timeout of the operation, see
// [WithNodeTimeout]. A panic of the Pool, or of a connection that runs a command, becomes an error of the operation.
type Pool interface{ Get() redis.Conn }

const (
	dialTimeout = 5 * time.Second // also to read and to write, for commands without a timeout of their own
	maxIdle     = 64              // connections kept open: dialling, above all over TLS, takes longer than locking
	idleTimeout = 4 * time.Minute // less than the 5 minutes after which some servers and firewalls hang up
)

// NewPool returns a pool for the server at rawURL, for programs that do not have one:
//
//	redis://[[user]:password@]host[:port][/db]
//	rediss://...                                  the same over TLS
//	unix://[[user]:password@]/path/to/socket[?db=n]
//
// It does not connect. Connecting, reading and writing time out after 5 s. The pool keeps up to 64 idle connections, for 4
// minutes, and does not limit those in use. A connection that was idle for 10 s is tested before use. opts are applied after
// the URL. The connections are those of [Dialer].
//
// Errors do not show the URL: it may contain a password, which an unescaped special character can move into any part of it.
func NewPool(rawURL string, opts ...redis.DialOption) (*redis.Pool, error) {
	t, err := redisurl.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redimutex: the Redis URL is not valid: %w", err)
	}
	return NewPoolAt(t.Network, t.Address, append(t.Options, opts...)...), nil
}

// NewPoolAt is NewPool with an address instead of a URL, and with the options of redis.Dial. A redis.DialContextFunc among
// them may do more than dial, such as log in with a password that changes.
func NewPoolAt(network, address string, opts ...redis.DialOption) *redis.Pool {
	d := conn.NewDialer(network, address, append([]redis.DialOption{
		redis.DialConnectTimeout(dialTimeout), redis.DialTLSHandshakeTimeout(dialTimeout),
		redis.DialReadTimeout(dialTimeout), redis.DialWriteTimeout(dialTimeout),
	}, opts...)...)
	return &redis.Pool{MaxIdle: maxIdle, IdleTimeout: idleTimeout, DialContext: d.DialContext, TestOnBorrowContext: d.TestIdle}
}

// Dialer is for experts who tune a pool of their own: it returns a DialContext for that pool. The pool of [NewPool] has it
// already, and pools without it work, too. The connections are those of redis.DialContext with the same options, but each
// phase ends when its ctx ends: dial, TLS handshake, AUTH, SELECT and commands.
//
// The library uses such connections on the goroutine of the caller, which is faster; others need a second goroutine. For this
// the DialContext of the pool has to be the returned function itself, not one that calls it. TestOnBorrow and
// TestOnBorrowContext of the pool have to be nil.
//
// Commands of other code, without a ctx, have the timeouts in opts. A function for dialling in opts is used as well. Its
// connections have to support deadlines; their Close must act at once, and end a blocked Read or Write.
func Dialer(network, address string, opts ...redis.DialOption) func(context.Context) (redis.Conn, error) {
	return conn.NewDialer(network, address, opts...).DialContext
}
