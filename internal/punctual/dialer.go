// Package punctual makes connections of redigo whose operations end with their contexts in every phase: dial, TLS
// handshake, AUTH, CLIENT SETNAME, SELECT, command. So they can be used on the goroutine of a caller who has a
// bound to keep, without a second goroutine to watch them.
package punctual

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Dialer dials punctual connections to one server.
type Dialer struct {
	network, address string
	opts             []redis.DialOption
	behind           Behind
}

// NewDialer returns a Dialer for the server at address, with the options that redis.Dial has. A function for
// dialling the network that is among them is used; a Read or Write of its connections must return when they are closed.
func NewDialer(network, address string, opts ...redis.DialOption) *Dialer {
	return &Dialer{network: network, address: address, opts: slices.Clip(opts)}
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
	over := ended(ctx)
	switch {
	case over != nil:
		err = over
	case !errors.Is(err, errHung):
		return nil, discreet(err)
	}
	return nil, fmt.Errorf("dial %s %s: %w", d.network, d.address, err)
}

// connect dials in two steps. First redigo dials the network, in whatever way its options say. Then it is given that
// connection again for all the rest, which ends when the connection is closed.
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
	c := &Conn{network: network}
	if secure, ok := network.(interface{ NetConn() net.Conn }); ok { // TLS that a function of the user has made
		c.network = secure.NetConn()
	}
	stop := context.AfterFunc(ctx, c.hangUp)
	whole, err := redis.DialContext(context.WithoutCancel(ctx), d.network, d.address, append(d.opts,
		redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) { return network, nil }))...)
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

// known reports whether netConn can look into the connections of this redigo. With one that is made in another
// way, which the tests would tell, connections are as redigo makes them, and no pool is punctual.
var known = func() bool {
	ours, other := net.Pipe()
	defer ours.Close()
	defer other.Close()
	return netConn(redis.NewConn(ours, 0, 0)) == ours
}()

// netConn returns the network connection below one of redigo, or nil. redigo has options for how to dial the
// network, but shows neither the options, once they are given, nor what they have led to; and to set a function of
// our own among them would undo those of the user: timeout for connecting, keep-alive.
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

// discreet hides what a server quotes of what it was sent, which may be the password: servers that know no AUTH, and some
// that are no Redis, quote the command. Nothing but quotes is touched, for the words tell what kind of an error it is. The
// names of our commands may be seen, and so may DENIED, where Redis says how to leave its protected mode.
func discreet(err error) error {
	var said redis.Error
	if !errors.As(err, &said) || strings.HasPrefix(string(said), "DENIED ") {
		return err
	}
	words, _, _ := strings.Cut(string(said), ", with args")
	first, last := strings.IndexAny(words, quotes), strings.LastIndexAny(words, quotes)
	if first < last && !slices.Contains(ours, strings.ToLower(words[first+1:last])) {
		words = words[:first+1] + "***" + words[last:]
	}
	if words == string(said) {
		return err
	}
	return redis.Error(words)
}

const quotes = "'\"`"

var ours = []string{"auth", "client", "client|setname", "setname", "select"}

// testAfter is how long a connection may be idle before it is tested.
const testAfter = 10 * time.Second

// TestIdle is for redis.Pool.TestOnBorrowContext: it tests a connection that was idle for more than 10 s.
func (d *Dialer) TestIdle(ctx context.Context, c redis.Conn, used time.Time) error {
	if time.Since(used) < testAfter {
		return nil
	}
	_, err := redis.DoContext(c, ctx, "PING")
	return err
}

// Pool reports whether nothing that p does outlasts the ctx given to its GetContext, nor do operations of its
// connections outlast theirs: it dials by the DialContext of a Dialer, and tests what it hands out by the TestIdle
// of one, or not at all.
//
// It looks at the functions themselves. A function that calls ours in turn may do anything else as well, so it
// does not count.
func Pool(p *redis.Pool) bool {
	return known && p != nil && p.TestOnBorrow == nil &&
		code(p.DialContext) == dialCode &&
		(p.TestOnBorrowContext == nil || code(p.TestOnBorrowContext) == testCode)
}

// A method value is a pointer to a function that the compiler makes for the method, and there is one for all
// receivers, however and wherever the value is made.
var (
	dialCode = code((*Dialer)(nil).DialContext)
	testCode = code(func() func(context.Context, redis.Conn, time.Time) error { return (*Dialer)(nil).TestIdle }())
)

// code returns where the instructions of a function are: 0 for nil.
func code(f any) uintptr { return reflect.ValueOf(f).Pointer() }
