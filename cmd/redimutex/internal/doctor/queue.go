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

// queue plays the two sides of a hand-off: a holder, and a waiter that is called by a message.
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
	_, err = t.do("ZREM", server.QueueKey(t.key), "none")
	if err != nil && !strings.HasPrefix(err.Error(), "NOREPLICAS ") { // a user who is told that has the permission
		return err
	}
	queued := func() *server.Claim {
		c := t.claim(func(terms *server.Terms) { terms.Queue = true })
		c.Waiter = &server.Waiter{Channel: channel, HandOff: commandLimit}
		return c
	}
	holder, waiter, queues := queued(), queued(), server.Try{Queues: true}
	unaware, second := t.claim(nil), queued()
	defer t.do("DEL", server.QueueKey(t.key)) //nolint:errcheck // then it expires
	return first(
		acquires(holder, server.Try{}, server.Done),
		acquires(waiter, queues, server.Held),
		releases(holder, 0), // hands the lock to the waiter
		func() error { return hear(conn) },
		releases(waiter, 0),
		// A holder that does not know of the queue leaves it to the waiter to find the lock free.
		acquires(unaware, server.Try{}, server.Done),
		acquires(second, queues, server.Held),
		releases(unaware, 0),
		acquires(second, queues, server.Done),
		releases(second, 0),
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
