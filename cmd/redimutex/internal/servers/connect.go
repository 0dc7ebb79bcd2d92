package servers

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/server"
)

// Connect opens a connection to each server, which its pool then keeps. The first connection may take longer than a command
// should. Connect fails if it reaches no majority.
func (s Set) Connect(ctx context.Context) error {
	answers := make(chan *redimutex.NodeError, len(s))
	for i, n := range s {
		go func() { answers <- &redimutex.NodeError{Node: i, Err: n.Dial(ctx)} }()
	}
	var errs []error
	for reached := 0; reached <= len(s)/2; {
		if reached+len(errs) == len(s) {
			return errors.Join(errs...)
		}
		if e := <-answers; e.Err == nil {
			reached++
		} else {
			errs = append(errs, e)
		}
	}
	return nil
}

// Dial opens a connection to the server, which the pool then keeps. It ends with ctx, or after DialTimeout, even if the server
// accepts connections and sends nothing.
func (n Node) Dial(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	c, err := n.Get(ctx)
	if err == nil {
		err = c.Close()
	}
	return err
}

// Redial opens a connection outside the pool, and closes it.
func (n Node) Redial(ctx context.Context) error {
	c, err := n.Server.Source.Dial(ctx)
	if err == nil {
		err = c.Close()
	}
	return n.dialled(err)
}

// Get checks a connection out of the pool.
func (n Node) Get(ctx context.Context) (redis.Conn, error) {
	c, err := n.Server.Source.Get(ctx)
	if ctx.Err() != nil && err != nil {
		err = ErrSilent
	}
	return c, n.dialled(err)
}

// Errors for servers that do not answer.
var (
	ErrSilent    = errors.New("no answer in time")
	ErrHandshake = errors.New("no answer to the TLS handshake: there is no TLS at this port, or the server hangs")
)

// dialled replaces an error of dialling if TLS may be the reason.
func (n Node) dialled(err error) error {
	var op *net.OpError
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil || !n.TLS:
	case errors.As(err, &op) && op.Op == "dial": // there was not even a connection
	case errors.Is(err, ErrSilent), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return ErrHandshake
	}
	return err
}

// Release ends the hold of the token on the server, if it has one, as Unlock does: the first in the queue gets the lock. ttl
// is the minimum time that the fence of the next holder must last.
func (n Node) Release(kind *server.Kind, key, token string, ttl time.Duration, queue bool) server.Reply {
	s := server.New(n.Pool)
	defer s.Close(0)
	c := server.Claim{Server: s, Lock: server.Lock{Key: key, Token: token, Extras: server.NoExtras, Terms: &server.Terms{
		Kind: kind, Want: kind.Want, TTL: max(ttl, time.Second), Timeout: LookTimeout, Fence: server.NoFence, Queue: queue,
	}}}
	c.Given()
	return c.Release(context.Background(), time.Now(), time.Time{})
}
