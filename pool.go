package redimutex

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/punctual"
	"github.com/redimutex/redimutex/internal/redisurl"
)

// A Pool is where connections come from. *redis.Pool of redigo and *redisc.Cluster of mna/redisc
// fit as they are. If the Pool has GetContext(ctx), as *redis.Pool does, that is used, so that
// waiting for a connection ends with the node timeout; if a connection has Bind(keys...), as those
// of redisc do, it is bound to the node that serves the key.
//
// Redis commands use the timeout of the operation (see [WithNodeTimeout]), not the one that the
// connection was dialled with. Where a connection of the pool turns out to be broken, the operation goes on over a fresh
// one, which a *redis.Pool, or a Pool with a method Dial() (redis.Conn, error), dials beside its limit, and any other Pool
// hands out when its broken ones are used up.
type Pool interface{ Get() redis.Conn }

var _ Pool = (*redis.Pool)(nil)

const (
	dialTimeout = 5 * time.Second // also for reading and writing, where no command has its own
	maxIdle     = 16              // connections kept open
	idleTimeout = 4 * time.Minute // less than the 5 minutes after which some servers and firewalls hang up
)

// NewPool returns a pool for the server at rawURL, for programs that do not have one:
//
//	redis://[[user]:password@]host[:port][/db]
//	rediss://...                                  the same over TLS
//	unix://[[user]:password@]/path/to/socket[?db=n]
//
// It does not connect. Connecting, reading and writing time out after 5 s, and a connection that was
// idle for 10 s is tested before use. opts are applied after the URL. Its connections are those of
// [Dialer]. Errors do not show the URL, because it may contain a password, and a password with a
// character that must be percent-encoded can end up in any part of it.
func NewPool(rawURL string, opts ...redis.DialOption) (*redis.Pool, error) {
	t, err := redisurl.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redimutex: the Redis URL is not valid: %w", err)
	}
	return newPool(dialer(t.Network, t.Address, append(t.Options(), opts...)).Mask(t.Mask)), nil
}

// NewPoolAt is NewPool for a server that is known by its address, with the options of redis.Dial. An own function for
// dialling among them, redis.DialContextFunc, may do more than dial, such as log in with a password that changes.
func NewPoolAt(network, address string, opts ...redis.DialOption) *redis.Pool {
	return newPool(dialer(network, address, opts))
}

func dialer(network, address string, opts []redis.DialOption) *punctual.Dialer {
	return punctual.NewDialer(network, address, append([]redis.DialOption{
		redis.DialConnectTimeout(dialTimeout),
		redis.DialTLSHandshakeTimeout(dialTimeout),
		redis.DialReadTimeout(dialTimeout),
		redis.DialWriteTimeout(dialTimeout),
	}, opts...)...)
}

func newPool(d *punctual.Dialer) *redis.Pool {
	return &redis.Pool{
		MaxIdle:             maxIdle,
		IdleTimeout:         idleTimeout,
		DialContext:         d.DialContext,
		TestOnBorrowContext: d.TestIdle,
	}
}

// Dialer returns what to put into the DialContext of a pool of your own. Its connections are those of
// redis.DialContext with the same options, but they end with the ctx in every phase, dial, TLS
// handshake, AUTH, SELECT and command, and need no second goroutine for that. The pool of [NewPool]
// has them already.
//
// Any pool works. But only if its connections are known to keep deadlines in all phases can they be used
// on the goroutine of the caller, which is faster. So the DialContext of the pool has to be this very
// function, not one that calls it, and its TestOnBorrow and TestOnBorrowContext have to be nil.
//
// Commands of other code, without a ctx, have the timeouts that opts say. Functions for dialling among
// opts are used as well; the connections that they make have to know deadlines.
func Dialer(network, address string, opts ...redis.DialOption) func(context.Context) (redis.Conn, error) {
	return punctual.NewDialer(network, address, opts...).DialContext
}
