package doctor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"github.com/redimutex/redimutex/internal/server"
)

var errNoMessage = errors.New("what was published did not arrive on another connection")

// queue plays the two sides of a hand-over: a holder, and a waiter that is called by a message.
func (t *trial) queue() error {
	channel := "redimutex:" + uuid.NewString()
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	conn, err := t.server.Source().Listen(ctx)
	cancel()
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := redis.DoWithTimeout(conn, commandLimit, "SUBSCRIBE", channel); err != nil {
		return err
	}
	// A script overlooks that it may not publish, so we ask without one first.
	if _, err := t.do("PUBLISH", channel, "hello"); err != nil {
		return err
	}
	if err := hear(conn); err != nil {
		return err
	}
	t.fresh()
	// Nor does it fail where it may not take a waiter out.
	for _, command := range [][]any{{"ZREM", server.QueueKey(t.key), "nobody"}, {"ZPOPMIN", server.QueueKey(t.key)}} {
		_, err := t.do(command[0].(string), command[1:]...)
		if err != nil && !strings.HasPrefix(err.Error(), "NOREPLICAS ") { // who is told that has the permission
			return err
		}
	}
	holder, waiter := t.lockTry(), t.lockTry()
	holder.Queue, waiter.Queue = true, true
	waiter.Ticket = server.Ticket{Name: waiter.Token, Channel: channel, HandOff: commandLimit, Rejoin: true}
	end := func(t *server.Try) server.Release { return server.Release{Lock: t.Lock, Queue: true, Ticket: t.Ticket} }
	unaware := server.Release{Lock: holder.Lock}
	defer t.do("DEL", server.QueueKey(t.key)) //nolint:errcheck // then it expires
	return first(
		t.acquires(holder, server.Done),
		t.acquires(waiter, server.Held),
		t.releases(end(holder)), // hands the lock to the waiter
		func() error { return hear(conn) },
		t.releases(end(waiter)),
		// A holder that does not know of the queue leaves it to the waiter to find the lock free.
		t.acquires(holder, server.Done),
		t.acquires(waiter, server.Held),
		t.releases(unaware),
		t.acquires(waiter, server.Done),
		t.releases(end(waiter)),
	)
}

// hear waits for a message.
func hear(conn redis.Conn) error {
	for end := time.Now().Add(commandLimit); ; {
		reply, err := redis.Values(redis.ReceiveWithTimeout(conn, time.Until(end)))
		if err != nil {
			return errNoMessage
		}
		if kind, _ := redis.String(reply[0], nil); kind == "message" {
			return nil
		}
	}
}
