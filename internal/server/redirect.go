package server

import (
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A binder is a connection to a cluster, which has to be told the key that it is for before it can be
// used for scripts: it would take the hash of a script for the key.
type binder interface{ Bind(keys ...string) error }

// A bound is a connection to the node of a cluster that serves one key. When that node says that the
// key's slot has MOVED, the command is repeated on the node that serves it now. That is safe, because the
// first has refused it; and without it the first command of a process that does not know the cluster
// yet would fail most of the time, for good where there is a single try.
//
// ASK, which is said while a slot is on its way to another node, is left to the next try: the
// connection can't be told to go where it points.
type bound struct {
	redis.Conn
	again func() (redis.Conn, error) // another one, bound to the same key
}

// DoWithTimeout is what session.do calls.
func (b *bound) DoWithTimeout(d time.Duration, name string, args ...any) (any, error) {
	end := time.Now().Add(d)
	reply, err := redis.DoWithTimeout(b.Conn, d, name, args...)
	if !moved(err) {
		return reply, err
	}
	// The pool has heard it as well, and now knows the node.
	c, failed := b.again()
	if failed != nil {
		return nil, err
	}
	b.Conn.Close()
	b.Conn = c
	left := time.Until(end)
	if left <= 0 {
		return nil, err
	}
	return redis.DoWithTimeout(c, left, name, args...)
}

// ReceiveWithTimeout is there because embedding hides that of the connection.
func (b *bound) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(b.Conn, d)
}

func moved(err error) bool {
	var e redis.Error
	return errors.As(err, &e) && strings.HasPrefix(string(e), "MOVED ")
}
