package goredis

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/redimutex/redimutex/pools/internal/dial"
)

const withoutIt = "give Pool a client without it, made from a copy of client.Options()"

// failover is the address that go-redis gives to a client that finds its primary through Sentinels.
const failover = "FailoverClient"

// dialOptions returns the options with which redigo dials as opt says.
func dialOptions(opt *redis.Options) []redigo.DialOption {
	l := &dial.Login{
		Dial:        dialler(opt),
		Credentials: credentials(opt),
		Name:        opt.ClientName,
		Primary:     opt.Addr == failover,
		Timeout:     opt.DialTimeout,
	}
	if opt.ReadTimeout < 0 || opt.WriteTimeout < 0 {
		l.Dial = timed(l.Dial)
	}
	if opt.DB > 0 {
		l.Commands = append(l.Commands, []any{"SELECT", opt.DB})
	}
	return []redigo.DialOption{
		redigo.DialContextFunc(l.Connect),
		redigo.DialReadTimeout(max(opt.ReadTimeout, 0)),
		redigo.DialWriteTimeout(max(opt.WriteTimeout, 0)),
	}
}

// dialler returns the function with which opt dials. go-redis's default dialer ignores its context in the TLS handshake. So if
// the user has set no other, this package dials by itself.
func dialler(opt *redis.Options) dial.Func {
	if opt.Addr == failover {
		return patient(opt.Dialer)
	}
	if opt.Dialer != nil && code(opt.Dialer) != defaultDialer() {
		return opt.Dialer
	}
	plain := &net.Dialer{
		Timeout:         opt.DialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}, // as in go-redis
	}
	if opt.TLSConfig == nil {
		return plain.DialContext
	}
	return (&tls.Dialer{NetDialer: plain, Config: opt.TLSConfig}).DialContext
}

// patient wraps next, the dialer of a FailoverClient. If ctx ends before next returns, patient repeats the dial in the
// background. The reason: go-redis stays with the Sentinel that it asked before until its own timeouts show that it hangs; but
// if ctx has ended, it blames ctx. Only one such dial runs at a time. It ends by those timeouts, or when the client is closed.
func patient(next dial.Func) dial.Func {
	var underway atomic.Bool
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := next(ctx, network, address)
		if err != nil && ctx.Err() != nil && underway.CompareAndSwap(false, true) {
			go func() {
				defer underway.Store(false)
				if c, err := next(context.WithoutCancel(ctx), network, address); err == nil {
					c.Close()
				}
			}()
		}
		return c, err
	}
}

// defaultDialer is the code of the dialer that go-redis sets if the user sets none.
var defaultDialer = sync.OnceValue(func() uintptr {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}) // a host name would be looked up
	defer c.Close()
	return code(c.Options().Dialer)
})

// code returns the address of a function's instructions.
func code(f any) uintptr { return reflect.ValueOf(f).Pointer() }

// credentials returns the credentials of opt, in the order in which go-redis looks for them.
func credentials(opt *redis.Options) func(context.Context, net.Conn) (user, password string, err error) {
	var ask func(context.Context) (string, string, error)
	switch {
	case opt.StreamingCredentialsProvider != nil:
		ask = func(context.Context) (string, string, error) { return current(opt.StreamingCredentialsProvider) }
	case opt.CredentialsProviderContext != nil:
		ask = opt.CredentialsProviderContext
	default:
		ask = func(context.Context) (user, password string, err error) {
			if opt.CredentialsProvider == nil {
				return opt.Username, opt.Password, nil
			}
			user, password = opt.CredentialsProvider()
			return user, password, nil
		}
	}
	return func(ctx context.Context, _ net.Conn) (user, password string, err error) {
		user, password, err = ask(ctx)
		if password == "" {
			user = "" // go-redis does not log in then
		}
		return user, password, err
	}
}

// current returns the current credentials.
func current(p auth.StreamingCredentialsProvider) (user, password string, err error) {
	c, unsubscribe, err := p.Subscribe(&deaf{})
	if err != nil {
		return "", "", err
	}
	user, password = c.BasicAuth()
	if unsubscribe != nil {
		err = unsubscribe()
	}
	return user, password, err
}

// A deaf listener ignores new credentials. It is not of size 0, because providers tell listeners apart by their addresses.
type deaf struct{ _ byte }

func (*deaf) OnNext(auth.Credentials) {}
func (*deaf) OnError(error)           {}

// limit sets the size of pool and the lifetime of its connections as opt says.
func limit(pool *redigo.Pool, opt *redis.Options) {
	pool.MaxActive, pool.Wait = opt.PoolSize, true
	if opt.MaxActiveConns > 0 {
		pool.MaxActive = min(pool.MaxActive, opt.MaxActiveConns)
	}
	pool.MaxIdle = pool.MaxActive
	if opt.MaxIdleConns > 0 {
		pool.MaxIdle = min(pool.MaxIdle, opt.MaxIdleConns)
	}
	pool.IdleTimeout = max(opt.ConnMaxIdleTime, 0)
	pool.MaxConnLifetime = max(opt.ConnMaxLifetime, 0)
	if opt.Addr == failover {
		dial.KeepYoung(pool)
	}
}

// nodeOptions returns the options of a cluster's nodes, as far as they are carried over.
func nodeOptions(opt *redis.ClusterOptions) *redis.Options {
	node := &redis.Options{
		ClientName:                   opt.ClientName,
		Dialer:                       opt.Dialer,
		Username:                     opt.Username,
		Password:                     opt.Password,
		CredentialsProvider:          opt.CredentialsProvider,
		CredentialsProviderContext:   opt.CredentialsProviderContext,
		StreamingCredentialsProvider: opt.StreamingCredentialsProvider,
		DialTimeout:                  opt.DialTimeout,
		ReadTimeout:                  opt.ReadTimeout,
		WriteTimeout:                 opt.WriteTimeout,
		PoolSize:                     opt.PoolSize,
		PoolTimeout:                  opt.PoolTimeout,
		MaxIdleConns:                 opt.MaxIdleConns,
		MaxActiveConns:               opt.MaxActiveConns,
		ConnMaxIdleTime:              opt.ConnMaxIdleTime,
		ConnMaxLifetime:              opt.ConnMaxLifetime,
		TLSConfig:                    opt.TLSConfig,
	}
	if node.PoolTimeout == 0 { // the defaults of go-redis
		node.PoolTimeout = max(node.ReadTimeout, 0) + time.Second
	}
	if node.ConnMaxIdleTime == 0 {
		node.ConnMaxIdleTime = 30 * time.Minute
	}
	return node
}
