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

// A grant is what a user of the server must be allowed to do for a feature. KEY stands for what the
// names of the locks begin with. docs/security.md has them too.
type grant struct {
	feature string
	title   string // as the library calls it
	check   string // the finding if it does not work
	rules   string
	try     func(*trial) error
}

var grants = []grant{
	{"lock", "a lock", "cannot-lock", "~KEY* +set +getrange +del +pexpire +pttl +time +eval +evalsha +ping", (*trial).lock},
	{"fencing", "WithFencing", "cannot-fence", "~redimutex:fence:{KEY*} +get", (*trial).fence},
	{
		"queue", "WithQueue", "cannot-queue", "~redimutex:queue:{KEY*} ~redimutex:fence:{KEY*} &redimutex:* " +
			"+role +zadd +zrem +zrange +zscore +zcard +publish +subscribe", (*trial).queue,
	},
	{"semaphore", "a Semaphore", "cannot-count", "+zremrangebyscore +zrange +zscore +zcount +zadd +zrem", (*trial).semaphore},
	{
		"readers", "an RWMutex", "cannot-read", "~redimutex:readers:{KEY*} ~redimutex:writers:{KEY*} ~redimutex:waiting:{KEY*} " +
			"~redimutex:entitled:{KEY*} +zremrangebyscore +zrange +zscore +zadd +zrem +zunionstore", (*trial).readers,
	},
	{"replicas", "WithReplicas", "cannot-wait", "+wait", (*trial).replicate},
	{"guard", "WithRestartGuard", "cannot-guard", "~redimutex:guard +get", (*trial).guard},
}

// exceptions are when a server refuses rules: where the user has all keys or channels already, and where we could
// not see that the server is a Redis 6.0.
func exceptions(rules string) string {
	if !strings.Contains(rules, "~") {
		return ""
	}
	channels := ""
	if strings.Contains(rules, "&") {
		channels = "; without & where it has all channels, as new users of Redis 6.2 have, and on Redis 6.0"
	}
	return " (without ~ where the user has ~*" + channels + ")"
}

// permissions are the rules of a grant as the server understands them: none before Redis 6, and none for
// channels before 6.2.
func (t *trial) permissions(g grant) string {
	var rules []string
	for rule := range strings.FieldsSeq(g.rules) {
		if !t.older(6, 0) && (!t.older(6, 2) || !strings.HasPrefix(rule, "&")) {
			rule = strings.Replace(rule, ":{KEY*}", siblings(t.prefix), 1)
			rules = append(rules, strings.ReplaceAll(rule, "KEY", t.prefix))
		}
	}
	return strings.Join(rules, " ")
}

// siblings is the pattern of the names of what belongs to the locks whose names begin with prefix, behind the word for it. A
// prefix with a closing brace may bring the {tag} of all of them, or have none.
func siblings(prefix string) string {
	form := strings.TrimPrefix(server.FenceKey(prefix), "redimutex:fence")
	switch {
	case strings.HasPrefix(form, "::"):
		return "::KEY*"
	case strings.HasPrefix(form, ":."):
		return ":.{*}KEY*"
	}
	return ":{KEY*}"
}

// semaphore takes the one permit of a semaphore, with another that wants it, counts, and gives it back.
func (t *trial) semaphore() error {
	permit := func() *server.Claim {
		return t.claim(func(terms *server.Terms) { terms.Kind, terms.Want = server.Semaphore, "1" })
	}
	holder, other := permit(), permit()
	return first(
		acquires(holder, server.Try{}, server.Done),
		acquires(other, server.Try{}, server.Held),
		t.extends(holder),
		func() error { return must(server.Done, t.server.InUse(context.Background(), holder.Lock)) },
		releases(holder, 0),
		acquires(other, server.Try{}, server.Done),
		releases(other, 0),
	)
}

// readers has readers and writers wait for each other.
func (t *trial) readers() error {
	as := func(kind *server.Kind) *server.Claim {
		c := t.claim(func(terms *server.Terms) { terms.Kind, terms.Want = kind, kind.Want })
		c.Extras = &server.Extras{Channel: uuid.NewString(), HandOff: commandLimit}
		return c
	}
	writer, reader := as(server.Writer), as(server.Reader)
	next, late := as(server.Writer), as(server.Reader)
	waits := server.Try{Shows: commandLimit}
	return first(
		acquires(writer, server.Try{}, server.Done),
		acquires(reader, waits, server.Held), // enters when the writer leaves
		releases(writer, 0),
		acquires(reader, waits, server.Done),
		t.extends(reader),
		acquires(next, waits, server.Held),
		acquires(late, waits, server.Held), // waits for the writer that waits
		releases(reader, 0),
		acquires(next, waits, server.Done),
		releases(next, 0),
		acquires(late, waits, server.Done),
		releases(late, 0),
	)
}

var errNoMessage = errors.New("what was published did not arrive on another connection")

// queue plays the two sides of a hand-off: a holder, and a waiter that is called by a message.
func (t *trial) queue() error {
	channel := "redimutex:" + uuid.NewString()
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	conn, err := t.server.Source.Listen(ctx)
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
	// Nor does it fail where it may not take a waiter out.
	_, err = t.do("ZREM", server.QueueKey(t.key), "none")
	if err != nil && !strings.HasPrefix(err.Error(), "NOREPLICAS ") { // a user who is told that has the permission
		return err
	}
	queued := func() *server.Claim {
		c := t.claim(func(terms *server.Terms) { terms.Queue = true })
		c.Extras = &server.Extras{Channel: channel, HandOff: commandLimit}
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
