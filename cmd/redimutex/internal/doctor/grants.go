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

// A grant is the set of permissions that a feature needs on the server. KEY stands for the common prefix of the names of
// locks. docs/security.md lists the permissions too.
type grant struct {
	feature string
	title   string // as the library calls it
	check   string // the finding if the feature does not work
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

// exceptions says when a server refuses rules: if the user already has all keys or channels, and if doctor could not see that
// the server is a Redis 6.0.
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

// permissions returns the rules of a grant as the server understands them: none before Redis 6, and no rules for channels
// before 6.2.
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

// siblings returns the pattern for the names of the keys that belong to locks with this prefix, without the first word of
// those names. A prefix with a closing brace may contain the {tag} of all of them, or have none.
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

// semaphore takes the only permit of a semaphore, lets another caller want it, counts, and releases it.
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

// readers lets readers and writers wait for each other.
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

// queue plays both sides of a hand-off: a holder, and a waiter that is woken by a message.
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
	// A script ignores that it may not publish, so this asks without a script first.
	if _, err := t.do("PUBLISH", channel, "hello"); err != nil {
		return err
	}
	if err := hear(conn); err != nil {
		return err
	}
	// Nor does a script fail if it may not remove a waiter.
	_, err = t.do("ZREM", server.QueueKey(t.key), "none")
	if err != nil && !strings.HasPrefix(err.Error(), "NOREPLICAS ") { // a user who gets this error has the permission
		return err
	}
	queued := func() *server.Claim {
		c := t.claim(func(terms *server.Terms) { terms.Queue = true })
		c.Extras = &server.Extras{Channel: channel, HandOff: commandLimit}
		return c
	}
	holder, waiter, queues := queued(), queued(), server.Try{Queues: true}
	unaware, second := t.claim(nil), queued()
	defer t.do("DEL", server.QueueKey(t.key)) //nolint:errcheck // otherwise it expires
	return first(
		acquires(holder, server.Try{}, server.Done),
		acquires(waiter, queues, server.Held),
		releases(holder, 0), // hands the lock to the waiter
		func() error { return hear(conn) },
		releases(waiter, 0),
		// A holder that does not know of the queue hands nothing off: the waiter has to find the lock free.
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
