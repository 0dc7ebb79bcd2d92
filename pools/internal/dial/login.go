// Package dial is shared by the pools of several clients: it logs connections in, and finds a primary.
//
// These modules are released together, but a program may use an older one with a newer root. So the exported part of this
// package is only added to, never changed.
package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Func dials the network, with TLS if that is configured.
type Func func(ctx context.Context, network, address string) (net.Conn, error)

// A Login prepares a new connection before redigo gets it. So a connection that a redisc.Cluster dials by itself is logged in
// too, and each connection asks for the credentials anew.
type Login struct {
	Dial        Func
	Credentials func(context.Context, net.Conn) (user, password string, err error)
	Name        string        // of the client; "": none
	Commands    [][]any       // to send after the login
	Primary     bool          // refuse a server that reports that it is a replica
	Timeout     time.Duration // of dialling, and again of the rest; 0: none
}

var errNoPrimary = errors.New("the server is a replica, and locks need the primary")

// Connect is for redis.DialContextFunc. It ends with ctx if the user's functions do.
func (l *Login) Connect(ctx context.Context, network, address string) (net.Conn, error) {
	dialling, cancel := l.bounded(ctx)
	defer cancel()
	c, err := l.Dial(dialling, network, bracketed(network, address))
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, errors.New("the dial function returned no connection")
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

// bracketed returns address with brackets around an IPv6 address, because redisc and the nodes of a cluster omit them.
func bracketed(network, address string) string {
	port := strings.LastIndexByte(address, ':')
	if network != "tcp" || port < 0 || address[0] == '[' || !strings.Contains(address[:port], ":") {
		return address
	}
	return net.JoinHostPort(address[:port], address[port+1:])
}

func (l *Login) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, l.Timeout)
}

func (l *Login) enter(ctx context.Context, raw net.Conn) error {
	user, password, err := l.Credentials(ctx, raw)
	if err != nil {
		return fmt.Errorf("no credentials: %w", err)
	}
	c := redis.NewConn(raw, 0, 0)
	role, err := l.hello(c, user, password)
	if err != nil {
		return discreet(err)
	}
	if l.Primary && role != "" && role != "master" {
		return errNoPrimary
	}
	for _, words := range l.Commands {
		name, _ := words[0].(string)
		if _, err := c.Do(name, words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// hello logs in by HELLO, which any user may send and which returns the role. If the server does not know HELLO, or not with
// these arguments, hello logs in by AUTH. Then the role is unknown.
func (l *Login) hello(c redis.Conn, user, password string) (role string, err error) {
	args := []any{2}
	if user != "" || password != "" {
		name := user
		if name == "" {
			name = "default"
		}
		args = append(args, "AUTH", name, password)
	}
	if l.Name != "" {
		args = append(args, "SETNAME", l.Name)
	}
	reply, err := c.Do("HELLO", args...)
	var said redis.Error
	if !errors.As(err, &said) || strings.HasPrefix(string(said), "WRONGPASS ") ||
		strings.Contains(string(said), "max number of clients") || strings.HasPrefix(string(said), "DENIED ") { // it hangs up
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
	if err == nil && l.Name != "" {
		_, err = c.Do("CLIENT", "SETNAME", l.Name)
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

// discreet cuts off the arguments of AUTH that a server quotes if it does not know AUTH.
func discreet(err error) error {
	var said redis.Error
	if errors.As(err, &said) {
		words, _, _ := strings.Cut(string(said), ", with args")
		return redis.Error(words)
	}
	return err
}
