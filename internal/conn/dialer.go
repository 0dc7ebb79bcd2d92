package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Dialer dials punctual connections to one server.
type Dialer struct {
	network, address string
	opts             []redis.DialOption
	hung             hung
}

// NewDialer returns a Dialer for the server at address, with the options of redis.Dial. They may contain a function that dials
// the network. Read and Write of its connections must return when the connection is closed.
func NewDialer(network, address string, opts ...redis.DialOption) *Dialer {
	return &Dialer{network: network, address: address, opts: slices.Clip(opts)}
}

// DialContext dials a connection. It is a *Conn if redigo is made as this package knows it (see netConn). DialContext returns
// when ctx ends at the latest. If a dial function of the user ignores ctx, DialContext leaves it running.
func (d *Dialer) DialContext(ctx context.Context) (redis.Conn, error) {
	c, err := d.hung.dial(ctx, d.connect)
	if err == nil {
		return c, nil
	}
	over := Ended(ctx)
	if over == nil && !errors.Is(err, errHung) {
		return nil, discreet(err)
	}
	return nil, fmt.Errorf("dial %s %s: %w", d.network, d.address, cmp.Or(over, err))
}

// connect dials in two steps. First redigo dials the network alone, as its options say. Then redigo gets that connection again
// for all the rest (TLS, AUTH and so on). Closing the connection ends this second step.
func (d *Dialer) connect(ctx context.Context) (redis.Conn, error) {
	if !known {
		return redis.DialContext(ctx, d.network, d.address, d.opts...)
	}
	bare, err := redis.DialContext(ctx, d.network, d.address, append(d.opts,
		redis.DialUseTLS(false), redis.DialPassword(""), redis.DialClientName(""), redis.DialDatabase(0))...)
	if err != nil {
		return nil, err
	}
	network := netConn(bare)
	if network == nil {
		return nil, errors.New("the dial function returned no connection")
	}
	c := &Conn{network: network, unwatch: func() bool { return false }}
	if secure, ok := network.(interface{ NetConn() net.Conn }); ok { // a dial function of the user has added TLS
		c.network = secure.NetConn()
	}
	stop := context.AfterFunc(ctx, c.hangUp)
	whole, err := redis.DialContext(context.WithoutCancel(ctx), d.network, d.address, append(d.opts,
		redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) { return calm{network}, nil }))...)
	if err != nil {
		stop()
		return nil, err
	}
	c.ConnWithTimeout = whole.(redis.ConnWithTimeout)
	c.timer = time.AfterFunc(time.Hour, c.look)
	c.timer.Stop()
	if !stop() {
		c.Close()
		return nil, ctx.Err()
	}
	return c, nil
}

// known reports whether netConn can look into the connections of this version of redigo. If it can't, which the tests would
// report, connections are redigo's own, and no pool is punctual.
var known = func() bool {
	ours, other := net.Pipe()
	defer ours.Close()
	defer other.Close()
	return netConn(redis.NewConn(ours, 0, 0)) == ours
}()

// netConn returns the network connection below a redigo connection, or nil. It has to look inside, because redigo shows
// neither the dial options that it was given nor their result. To add a dial function of this package to the options would
// override two of the user's: the connect timeout and the keep-alive.
func netConn(c redis.Conn) net.Conn {
	v := reflect.Indirect(reflect.ValueOf(c))
	if v.Kind() != reflect.Struct {
		return nil
	}
	field := v.FieldByName("conn")
	if !field.IsValid() || !field.CanAddr() || field.Type() != reflect.TypeFor[net.Conn]() {
		return nil
	}
	return *(*net.Conn)(field.Addr().UnsafePointer())
}

// TestIdle is for redis.Pool.TestOnBorrowContext: it tests a connection that was idle for more than 10 s.
func (d *Dialer) TestIdle(ctx context.Context, c redis.Conn, used time.Time) error {
	if time.Since(used) < 10*time.Second {
		return nil
	}
	_, err := redis.DoContext(c, ctx, "PING")
	return err
}

// punctual reports whether everything that p and its connections do ends with its ctx. This is so if p dials by a Dialer's
// DialContext, and tests connections by a Dialer's TestIdle or not at all. punctual compares the functions themselves. A
// function that calls one of these may do anything else as well, so it does not count.
func punctual(p *redis.Pool) bool {
	return known && p.TestOnBorrow == nil &&
		code(p.DialContext) == dialCode &&
		(p.TestOnBorrowContext == nil || code(p.TestOnBorrowContext) == testCode)
}

// A method value points to a function that the compiler makes for the method: one for all receivers, wherever it is made.
var (
	dialCode = code((*Dialer)(nil).DialContext)
	testCode = code(func() func(context.Context, redis.Conn, time.Time) error { return (*Dialer)(nil).TestIdle }())
)

// code returns the address of a function's instructions, or 0 for nil.
func code(f any) uintptr { return reflect.ValueOf(f).Pointer() }

// calm is a network connection whose Close does not panic: redigo calls Close with its mutex locked.
type calm struct{ net.Conn }

func (c calm) Close() error { return Calm(c.Conn.Close) }
