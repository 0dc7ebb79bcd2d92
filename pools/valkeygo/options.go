package valkeygo

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/valkey-io/valkey-go"

	"github.com/redimutex/redimutex"
)

// maxAge is how old a connection to a primary that Sentinel has chosen may become. An old primary takes writes until
// Sentinel reaches it, for seconds or for as long as it is cut off from Sentinel and not from us. The caller that leaves it
// within a second renews its locks at the new one before they expire there.
const maxAge = time.Second

func newPool(option *valkey.ClientOption, address string, l *login) *redis.Pool {
	return limit(redimutex.NewPoolAt("tcp", address, dialOptions(option, l)...), option)
}

// limit gives the connections of pool their age.
func limit(pool *redis.Pool, option *valkey.ClientOption) *redis.Pool {
	pool.MaxConnLifetime = max(option.ConnLifetime, 0)
	return pool
}

// dialOptions returns how redigo is to dial, with the timeouts of option.
func dialOptions(option *valkey.ClientOption, l *login) []redis.DialOption {
	timeout := option.ConnWriteTimeout
	if timeout == 0 { // as valkey-go has it
		timeout = 10 * max(valkey.DefaultTCPKeepAlive, option.Dialer.KeepAlive)
	}
	return []redis.DialOption{
		redis.DialContextFunc(l.connect),
		redis.DialReadTimeout(max(timeout, 0)),
		redis.DialWriteTimeout(max(timeout, 0)),
	}
}

// newLogin returns how connections that dial makes are logged in.
func newLogin(option *valkey.ClientOption, dial dialFunc) *login {
	l := &login{
		dial:        dial,
		credentials: credentials(option),
		name:        option.ClientName,
		timeout:     timeout(&option.Dialer),
	}
	if option.SelectDB != 0 {
		l.commands = append(l.commands, []any{"SELECT", option.SelectDB})
	}
	if option.ClientNoTouch {
		l.commands = append(l.commands, []any{"CLIENT", "NO-TOUCH", "ON"})
	}
	if option.ClientNoEvict {
		l.commands = append(l.commands, []any{"CLIENT", "NO-EVICT", "ON"})
	}
	return l
}

func timeout(d *net.Dialer) time.Duration {
	if d.Timeout == 0 {
		return valkey.DefaultDialTimeout
	}
	return d.Timeout
}

// patience is timeout, or the default of valkey-go where there is none.
func patience(d *net.Dialer) time.Duration {
	if t := timeout(d); t > 0 {
		return t
	}
	return valkey.DefaultDialTimeout
}

// dialler returns a function that dials as valkey-go does.
func dialler(option *valkey.ClientOption) dialFunc {
	dialer := option.Dialer
	dialer.Timeout = timeout(&dialer)
	if dialer.KeepAlive == 0 {
		dialer.KeepAlive = valkey.DefaultTCPKeepAlive
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		switch {
		case option.DialCtxFn != nil:
			return option.DialCtxFn(ctx, address, &dialer, option.TLSConfig)
		case option.DialFn != nil:
			return option.DialFn(address, &dialer, option.TLSConfig)
		case option.TLSConfig != nil:
			return (&tls.Dialer{NetDialer: &dialer, Config: option.TLSConfig}).DialContext(ctx, network, address)
		}
		return dialer.DialContext(ctx, network, address)
	}
}

func credentials(option *valkey.ClientOption) func(context.Context, net.Conn) (user, password string, err error) {
	return func(_ context.Context, c net.Conn) (user, password string, err error) {
		if option.AuthCredentialsFn == nil {
			return option.Username, option.Password, nil
		}
		got, err := option.AuthCredentialsFn(valkey.AuthCredentialsContext{Address: c.RemoteAddr()})
		return got.Username, got.Password, err
	}
}

// sentinelOption returns the option with which Sentinels are dialled.
func sentinelOption(option valkey.ClientOption) *valkey.ClientOption {
	option.Username, option.Password = option.Sentinel.Username, option.Sentinel.Password
	option.ClientName = option.Sentinel.ClientName
	option.Dialer, option.TLSConfig = option.Sentinel.Dialer, option.Sentinel.TLSConfig
	option.SelectDB, option.ClientNoTouch, option.ClientNoEvict = 0, false, false
	return &option
}
