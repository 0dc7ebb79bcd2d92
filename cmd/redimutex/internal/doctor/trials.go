package doctor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/internal/server"
)

// claim returns a claim of a new token on the lock. If f is not nil, f changes the terms.
func (t *trial) claim(f func(*server.Terms)) *server.Claim {
	terms := &server.Terms{
		Kind: server.Mutex, Want: server.Mutex.Want, TTL: trialTTL, Timeout: commandLimit, Fence: server.NoFence,
	}
	if f != nil {
		f(terms)
	}
	l := server.Lock{Terms: terms, Key: t.key, Token: uuid.NewString(), Extras: server.NoExtras}
	return &server.Claim{Lock: l, Server: t.server}
}

// A step is a part of a trial. Each step asks the server something, and fails if the answer is not the one that it wants.
type step func() error

// first runs steps until one of them fails.
func first(steps ...step) error {
	for _, run := range steps {
		if err := run(); err != nil {
			return err
		}
	}
	return nil
}

func acquires(c *server.Claim, try server.Try) step {
	return func() error { return must(server.Done, c.Try(context.Background(), try)) }
}

// findsHeld tries in vain.
func findsHeld(c *server.Claim, try server.Try) step {
	return func() error { return must(server.Held, c.Try(context.Background(), try)) }
}

func (t *trial) extends(c *server.Claim) step {
	return func() (err error) {
		x := server.Extension{Claim: c, TTL: trialTTL}
		t.server.Extend(context.Background(), time.Now(), []server.Extension{x}, func(_ int, r server.Reply) { err = must(server.Done, r) })
		return err
	}
}

func releases(c *server.Claim) step {
	return func() error { return must(server.Done, c.Release(context.Background(), time.Now(), time.Time{})) }
}

// sends runs a command of any kind.
func (t *trial) sends(command string, args ...any) step {
	return func() error { _, err := t.do(command, args...); return err }
}

var errNotOurs = errors.New("another client has a lock with a random name: several servers seem to be behind this address")

// must turns anything but the wanted verdict into an error.
func must(want server.Verdict, r server.Reply) error {
	if r.Verdict == want {
		return nil
	}
	if r.Err != nil {
		return r.Err
	}
	return errNotOurs
}

// lock takes a lock in both ways, renews it, and releases it in both ways.
func (t *trial) lock() error {
	scripted, quick, plain := t.claim(nil), t.claim(nil), server.Try{Plain: true} // plain works once a script has worked
	return first(
		t.sends("PING"),
		t.sends("EVAL", "return 1", 0), // for scripts that the server does not know yet
		acquires(scripted, server.Try{}),
		findsHeld(quick, plain), // asks for the holder
		t.extends(scripted),
		releases(scripted),
		acquires(quick, plain),
		func() error {
			return must(server.Done, quick.Release(context.Background(), time.Now(), time.Now().Add(time.Millisecond)))
		},
	)
}

// fence takes a lock with a fence, and raises the fence as a Redlock does. It deletes the counter, which would otherwise stay
// for an hour.
func (t *trial) fence() error {
	c := t.claim(func(terms *server.Terms) { terms.Fence = server.NextFence })
	defer t.do("DEL", server.FenceKey(t.key)) //nolint:errcheck // otherwise it expires
	return first(
		acquires(c, server.Try{}),
		func() error { return must(server.Done, t.server.Raise(context.Background(), &c.Lock, 1, commandLimit)) },
		releases(c),
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
	heard := func() error { return hear(conn) }
	// A script ignores that it may not publish, so this asks without a script first.
	if err := first(t.sends("PUBLISH", channel, "hello"), heard); err != nil {
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
		acquires(holder, server.Try{}),
		findsHeld(waiter, queues),
		releases(holder), // hands the lock to the waiter
		heard,
		releases(waiter),
		// A holder that does not know of the queue hands nothing off: the waiter has to find the lock free.
		acquires(unaware, server.Try{}),
		findsHeld(second, queues),
		releases(unaware),
		acquires(second, queues),
		releases(second),
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

// semaphore takes the only permit of a semaphore, lets another caller want it, counts, and releases it.
func (t *trial) semaphore() error {
	permit := func() *server.Claim {
		return t.claim(func(terms *server.Terms) { terms.Kind, terms.Want = server.Semaphore, "1" })
	}
	holder, other := permit(), permit()
	return first(
		acquires(holder, server.Try{}),
		findsHeld(other, server.Try{}),
		t.extends(holder),
		func() error { return must(server.Done, t.server.InUse(context.Background(), holder.Lock)) },
		releases(holder),
		acquires(other, server.Try{}),
		releases(other),
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
		acquires(writer, server.Try{}),
		findsHeld(reader, waits), // enters when the writer leaves
		releases(writer),
		acquires(reader, waits),
		t.extends(reader),
		findsHeld(next, waits),
		findsHeld(late, waits), // waits for the writer that waits
		releases(reader),
		acquires(next, waits),
		releases(next),
		acquires(late, waits),
		releases(late),
	)
}

// replicate waits until as many replicas as the program wants have confirmed a lock.
func (t *trial) replicate() error {
	if t.replicas == 0 {
		return first(t.sends("WAIT", 0, 1))
	}
	c := t.claim(func(terms *server.Terms) { terms.Replicas = server.Replicas{N: t.replicas, Timeout: commandLimit} })
	return first(acquires(c, server.Try{}), releases(c))
}

// guard tries the key of the restart guard. It must not leave one on servers whose clients do not use it. NX and XX exclude
// each other, so the server checks the permission and writes nothing.
func (t *trial) guard() error {
	if t.info["cluster_enabled"] == "1" {
		return redis.Error("CROSSSLOT the guard is one key, and scripts of a cluster stay in one slot")
	}
	if _, err := t.do("GET", guardMark); err != nil {
		return err
	}
	_, err := t.do("SET", guardMark, "0", "NX", "XX", "PX", 1)
	if said, _ := servers.Said(err); strings.Contains(string(said), "syntax") {
		return nil
	}
	return err
}
