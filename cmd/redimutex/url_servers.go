package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
)

// pools returns the pools of the servers.
func (s servers) pools() []redimutex.Pool {
	pools := make([]redimutex.Pool, len(s))
	for i, n := range s {
		pools[i] = n.pool
	}
	return pools
}

// close closes the connections that are idle.
func (s servers) close() {
	for _, n := range s {
		n.pool.Close() //nolint:errcheck // it always returns nil
	}
}

const dialTimeout = 5 * time.Second // for the first connection to a server

// connect opens a connection to each server, which the pools then keep. The first one may take
// longer than a command should. It fails if there is no majority.
func (s servers) connect(ctx context.Context) error {
	answers := make(chan redimutex.NodeError, len(s))
	for i, n := range s {
		go func() {
			c, err := n.pool.GetContext(ctx)
			if err == nil {
				err = c.Close()
			}
			answers <- redimutex.NodeError{Node: i, Err: err}
		}()
	}
	reached := 0
	errs := make([]error, len(s))
	for i := range errs {
		errs[i] = redimutex.NodeError{Node: i, Err: errSilent}
	}
	for range s {
		select {
		case e := <-answers:
			if errs[e.Node] = e; e.Err != nil {
				continue
			}
			errs[e.Node] = nil
			if reached++; reached > len(s)/2 {
				return nil
			}
		case <-ctx.Done(): // a server that accepts connections and says nothing
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

var errSilent = errors.New("no answer in time")

// explain says in one sentence which servers failed and why, and what to do about it.
func (s servers) explain(err error) string {
	hint := ""
	for _, n := range nodeErrors(err) {
		hint = advice(n.Err)
	}
	return s.failures(err) + hint
}

// failures says which servers failed and why.
func (s servers) failures(err error) string {
	var words []string
	for _, n := range nodeErrors(err) {
		words = append(words, s[n.Node].address+": "+shortened(n.Err).Error())
	}
	if len(words) == 0 {
		words = append(words, s.addresses()+": "+strings.TrimPrefix(err.Error(), "redimutex: "))
	}
	return strings.Join(words, "; ")
}

// advice says what to do about the error of a server.
func advice(err error) string {
	var said redis.Error
	if !errors.As(err, &said) {
		return " (does it run, and can it be reached from here? -redis URL or " + envURL + " names another)"
	}
	code, _, _ := strings.Cut(string(said), " ")
	switch code {
	case "NOAUTH", "WRONGPASS":
		return " (give user and password as in redis://user:password@host, by " + envURL + " or -redis @FILE)"
	case "WRONGTYPE":
		return " (something that is not a lock has the name of this KEY)"
	case "MOVED":
		return " (this is a node of a cluster, and another one serves KEY; name that one by -redis)"
	}
	return ""
}

func (s servers) addresses() string {
	all := make([]string, len(s))
	for i, n := range s {
		all[i] = n.address
	}
	return strings.Join(all, ", ")
}

// shortened takes out of an error what is shown already, or what nobody needs to know.
func shortened(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errSilent
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// nodeErrors returns all NodeErrors in the tree of err.
func nodeErrors(err error) []redimutex.NodeError {
	switch e := err.(type) { //nolint:errorlint // we walk the tree ourselves
	case redimutex.NodeError:
		return []redimutex.NodeError{e}
	case interface{ Unwrap() []error }:
		var all []redimutex.NodeError
		for _, err := range e.Unwrap() {
			all = append(all, nodeErrors(err)...)
		}
		return all
	case interface{ Unwrap() error }:
		return nodeErrors(e.Unwrap())
	}
	return nil
}
