package valkeygo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A dialFunc dials the network, and speaks TLS where that is wanted.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// A login is what a new connection goes through before redigo gets it. So also a connection that a redisc.Cluster dials
// by itself is logged in, and credentials are asked for anew each time.
type login struct {
	dial        dialFunc
	credentials func(context.Context, net.Conn) (user, password string, err error)
	name        string        // of the client; "": none
	commands    [][]any       // to be sent then
	primary     bool          // the server has to be one
	timeout     time.Duration // of dialling, and of the rest; 0: none
}

var errNoPrimary = errors.New("the server is a replica, and locks need the primary")

// connect is for redis.DialContextFunc. It ends with ctx, if the functions of the user do.
func (l *login) connect(ctx context.Context, network, address string) (net.Conn, error) {
	dialling, cancel := l.bounded(ctx)
	defer cancel()
	c, err := l.dial(dialling, network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel = l.bounded(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	err = l.enter(ctx, c)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return c, nil
}

func (l *login) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, l.timeout)
}

func (l *login) enter(ctx context.Context, raw net.Conn) error {
	user, password, err := l.credentials(ctx, raw)
	if err != nil {
		return fmt.Errorf("no credentials: %w", err)
	}
	c := redis.NewConn(raw, 0, 0)
	role, err := l.hello(c, user, password)
	if err != nil {
		return discreet(err)
	}
	if l.primary && role != "" && role != "master" {
		return errNoPrimary
	}
	for _, words := range l.commands {
		name, _ := words[0].(string)
		if _, err := c.Do(name, words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// hello logs in by HELLO, which any user may send and which tells the role; or, where the server does not know it
// or not so, as it was done before, and then the role is not known.
func (l *login) hello(c redis.Conn, user, password string) (role string, err error) {
	args := []any{2}
	if user != "" || password != "" {
		name := user
		if name == "" {
			name = "default"
		}
		args = append(args, "AUTH", name, password)
	}
	if l.name != "" {
		args = append(args, "SETNAME", l.name)
	}
	reply, err := c.Do("HELLO", args...)
	var said redis.Error
	if !errors.As(err, &said) || strings.HasPrefix(string(said), "WRONGPASS ") {
		return roleOf(reply), err
	}
	switch {
	case user != "":
		_, err = c.Do("AUTH", user, password)
	case password != "":
		_, err = c.Do("AUTH", password)
	default:
		err = nil
	}
	if err == nil && l.name != "" {
		_, err = c.Do("CLIENT", "SETNAME", l.name)
	}
	return "", err
}

func roleOf(hello any) string {
	fields, _ := hello.([]any)
	for i := 0; i+1 < len(fields); i += 2 {
		if name, _ := redis.String(fields[i], nil); name == "role" {
			role, _ := redis.String(fields[i+1], nil)
			return role
		}
	}
	return ""
}

// discreet cuts off what a server that does not know AUTH quotes of it.
func discreet(err error) error {
	var said redis.Error
	if errors.As(err, &said) {
		words, _, _ := strings.Cut(string(said), ", with args")
		return redis.Error(words)
	}
	return err
}
