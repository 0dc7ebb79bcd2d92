// Package punctual makes connections of redigo whose operations end with their contexts in every phase: dial, TLS
// handshake, AUTH, CLIENT SETNAME, SELECT, command. So they can be used on the goroutine of a caller who has a
// bound to keep, without a second goroutine to watch them.
package punctual

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Dialer dials punctual connections to one server.
type Dialer struct {
	network, address string
	opts             []redis.DialOption
	plain            []redis.DialOption // opts without what comes after the dial of the network
	mask             func(error) error

	behind Behind
}

// testAfter is how long a connection may be idle before it is tested.
const testAfter = 10 * time.Second

// NewDialer returns a Dialer for the server at address, with the options that redis.Dial has. A function for
// dialling the network that is among them is used; connections that it makes must know deadlines.
func NewDialer(network, address string, opts ...redis.DialOption) *Dialer {
	plain := append(append([]redis.DialOption(nil), opts...),
		redis.DialUseTLS(false), redis.DialPassword(""), redis.DialClientName(""), redis.DialDatabase(0))
	return &Dialer{network: network, address: address, opts: opts, plain: plain, mask: discreet}
}

// Mask has f take out of the errors of dialling what they must not show. It returns d, and has to be called before d
// is used. What a server quotes of the arguments of a command is cut off without it.
func (d *Dialer) Mask(f func(error) error) *Dialer {
	d.mask = func(err error) error { return f(discreet(err)) }
	return d
}

// DialContext dials a connection: a *Conn, as long as redigo is made as we know it (see netConn). It returns when
// ctx ends, at the latest. A pool that dials by this very method is punctual; see [Pool].
//
// A function of the user that dials and does not end with ctx is left behind; see [Behind].
func (d *Dialer) DialContext(ctx context.Context) (redis.Conn, error) {
	c, err := d.behind.Dial(ctx, d.connect)
	if err == nil {
		return c, nil
	}
	switch err = cause(ctx, err); {
	case errors.Is(err, errHung), errors.Is(err, context.Canceled):
	case errors.Is(err, context.DeadlineExceeded):
		err = context.DeadlineExceeded
	default:
		return nil, d.mask(err)
	}
	return nil, fmt.Errorf("dial %s %s: %w", d.network, d.address, err)
}

// connect dials in two steps. First redigo dials the network, in whatever way its options say. Then it is given
// that connection again, as one that can be interrupted, for all the rest.
func (d *Dialer) connect(ctx context.Context) (redis.Conn, error) {
	if !known {
		return redis.DialContext(ctx, d.network, d.address, d.opts...)
	}
	bare, err := redis.DialContext(ctx, d.network, d.address, d.plain...)
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: netConn(bare)}
	stop := context.AfterFunc(ctx, s.interrupt)
	opts := append(append([]redis.DialOption(nil), d.opts...),
		redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) { return s, nil }))
	c, err := redis.DialContext(context.WithoutCancel(ctx), d.network, d.address, opts...)
	if err != nil {
		stop()
		return nil, err
	}
	conn := newConn(c.(redis.ConnWithTimeout), s)
	if !stop() {
		conn.Close()
		return nil, ctx.Err()
	}
	return conn, nil
}

// discreet cuts off what a server quotes of the command that it was sent, which may be AUTH with a password: servers
// that know no AUTH say "ERR unknown command 'AUTH', with args beginning with: …".
func discreet(err error) error {
	var said redis.Error
	if errors.As(err, &said) {
		if words, _, quotes := strings.Cut(string(said), ", with args"); quotes {
			return redis.Error(words)
		}
	}
	return err
}

// TestIdle is for redis.Pool.TestOnBorrowContext: it tests a connection that was idle for more than 10 s.
func (d *Dialer) TestIdle(ctx context.Context, c redis.Conn, used time.Time) error {
	if time.Since(used) < testAfter {
		return nil
	}
	_, err := redis.DoContext(c, ctx, "PING")
	return err
}
