package redimutex

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// An Option changes how the locks of a [Client], or a single one, behave. An option that makes no sense is a programming
// error: making the Client or the lock panics, with a sentence that names the value and what is allowed.
type Option func(*config)

// config is the result of all options. It does not change after it was checked.
type config struct {
	terms       server.Terms
	poll        time.Duration                   // as given; 0: the default, which depends on the TTL
	backoff     func(attempt int) time.Duration // nil: poll decides
	pause       func(attempt int) time.Duration // the wait between tries, made of poll or backoff
	nodeTimeout time.Duration                   // as given; 0: the default
	maxAttempts int
	reentrant   bool
	conns       int // WithMultiplexing; 0: off
	trace       *Trace
	logger      *slog.Logger
}

const (
	defaultPoll = 50 * time.Millisecond
	minTTL      = 10 * time.Millisecond
	maxTTL      = 100 * 365 * 24 * time.Hour
	maxOwner    = 256
	maxServers  = 64
	maxConns    = 1000 // of WithMultiplexing
)

var defaultConfig = config{terms: server.Terms{
	Kind: server.Mutex, Want: server.Mutex.Want, TTL: 10 * time.Second, Fence: server.NoFence, Renew: true,
}}

// configured returns base with the changes of opts, for the Client itself or for one of its locks.
func (c *Client) configured(base *config, opts []Option) *config {
	if len(opts) == 0 && c.config != nil {
		return base
	}
	changed := *base
	for _, o := range opts {
		must(o != nil, "an Option is nil")
		o(&changed)
	}
	t := &changed.terms
	t.Timeout = cmp.Or(changed.nodeTimeout, min(max(t.TTL/20, 50*time.Millisecond), t.TTL/2, server.MaxTimeout))
	if t.Fence != server.NoFence {
		t.Reuse = 0 // each hold has a fence of its own, from the servers
	}
	must(c.config == nil || changed.conns == base.conns,
		"WithMultiplexing(%d): is an option of NewClient, whose Mutexes share the connections; give it there", changed.conns)
	must(t.TTL >= minTTL, "WithTTL(%v): a lease has to last %v at least", t.TTL, minTTL)
	must(t.TTL <= maxTTL, "WithTTL(%v): a lease can last %v at most", t.TTL, maxTTL)
	must(t.Timeout < t.TTL, "WithNodeTimeout(%v): has to be less than the TTL, which is %v", t.Timeout, t.TTL)
	must(t.MaxHold == 0 || t.MinHold <= t.MaxHold,
		"WithMinHold(%v): has to be at most WithMaxHold, which is %v", t.MinHold, t.MaxHold)
	must(t.Replicas.Timeout < t.TTL-t.Timeout,
		"WithReplicas: its timeout, %v, and the node timeout, %v, together have to be less than the TTL, which is %v",
		t.Replicas.Timeout, t.Timeout, t.TTL)
	must(t.Reuse <= quorum.Validity(t.TTL)/2,
		"WithLeaseReuse(%v): has to be less than half the TTL: %v at most for a TTL of %v", t.Reuse, quorum.Validity(t.TTL)/2, t.TTL)
	must(t.Reuse == 0 || t.MinHold == 0, "WithLeaseReuse and WithMinHold contradict each other: a lock is either kept or left to expire")
	must(changed.conns == 0 || t.Replicas.N == 0,
		"WithMultiplexing(%d): not with WithReplicas, whose WAIT would keep all other commands waiting; use the connections of the pool for such locks", changed.conns)
	must(len(t.Owner) <= maxOwner, "WithOwner: the label has %d bytes, %d are allowed", len(t.Owner), maxOwner)
	must(!strings.ContainsFunc(t.Owner, unicode.IsControl), "WithOwner(%q): the label has a control character", t.Owner)
	must(!t.Queue || len(c.pools) == 1,
		"WithQueue: a queue is kept by one server, and this Client has %d: leave it out, and waiters poll (WithPollInterval, WithBackoff)", len(c.pools))
	must(!t.Guard || !slices.ContainsFunc(c.pools, func(p Pool) bool { return conn.Of(p).Cluster }),
		"WithRestartGuard: one key can't guard all nodes of a cluster; leave it out")
	poll := cmp.Or(changed.poll, min(defaultPoll, t.TTL/2))
	switch {
	case changed.backoff != nil:
		changed.pause = func(attempt int) time.Duration { return max(changed.backoff(attempt), 0) }
	case len(c.pools) > 1: // waiters that split the votes would split them again if they waited equally long
		changed.pause = func(int) time.Duration { return jitter(poll) }
	default:
		changed.pause = func(int) time.Duration { return poll }
	}
	return &changed
}

func (c *config) of(kind *server.Kind) *config {
	changed := *c
	changed.terms.Kind, changed.terms.Want = kind, kind.Want
	return &changed
}

func must(ok bool, sentence string, args ...any) {
	if !ok {
		panic("redimutex: " + fmt.Sprintf(sentence, args...))
	}
}

// checked returns an Option that panics if ok is false: when the Option is applied, not when it is made.
func checked(ok bool, set func(*config), sentence string, args ...any) Option {
	return func(c *config) {
		must(ok, sentence, args...)
		set(c)
	}
}

// WithTTL sets for how long the lock of a crashed holder stays locked: 10 s by default, 10 ms at least. A live holder renews
// its lease every third of the TTL.
func WithTTL(d time.Duration) Option { return func(c *config) { c.terms.TTL = d } }

// WithMaxHold stops the renewal d after the lock was acquired; d is at least 1 ms. The lease is then lost within a TTL, or
// within the ttl of an Extend. It guards against a holder that hangs while its process lives. By default there is no limit.
func WithMaxHold(d time.Duration) Option {
	return checked(d >= time.Millisecond, func(c *config) { c.terms.MaxHold = d }, "WithMaxHold(%v): has to be 1ms at least; leave it out for no limit", d)
}

// WithMinHold keeps the lock locked for at least d: after an earlier Unlock, the key expires d after the lock was acquired. It
// is for jobs that must not run twice even if the clocks of their machines differ by almost d. The default is 0. The lock of a
// crashed holder ends with its TTL, even before d. It excludes [WithLeaseReuse]; d is 0, or 1 ms to that of [WithMaxHold].
func WithMinHold(d time.Duration) Option {
	return checked(d == 0 || d >= time.Millisecond && d <= maxTTL, func(c *config) { c.terms.MinHold = d },
		"WithMinHold(%v): has to be 0, for none, or from 1ms to 100 years", d)
}

// WithoutRenewal makes the lease end when its TTL is over, even if the holder is not done. By default the lease is renewed
// until Unlock, or until [WithMaxHold] stops the renewal.
func WithoutRenewal() Option { return func(c *config) { c.terms.Renew = false } }

// WithPollInterval sets the wait between two tries of a waiter. The default is 50 ms, or half the TTL if that is less. The
// minimum is 1 ms; the wait may exceed the TTL. A waiter of an [RWMutex] tries at least once a second. With several servers
// each wait varies at random, by half up and down. If [WithBackoff] is given as well, the last of the two counts.
func WithPollInterval(d time.Duration) Option {
	return checked(d >= time.Millisecond, func(c *config) { c.poll, c.backoff = d, nil }, "WithPollInterval(%v): has to be 1ms at least", d)
}

// WithBackoff replaces the poll interval by a wait that depends on the number of the failed try. Each Lock counts its tries
// from 1. [Linear], [Exponential] and [Jittered] are ready-made. The wait may be longer than the TTL; in an [RWMutex] it is a
// second at most. A negative wait counts as 0. The function must be safe for concurrent use.
func WithBackoff(wait func(attempt int) time.Duration) Option {
	return checked(wait != nil, func(c *config) { c.backoff = wait }, "WithBackoff: the function is nil")
}

// WithMaxAttempts makes a waiter give up after n tries: with [ErrLocked], or with [ErrUnavailable] if too few servers answered
// the last one. While another goroutine of this process has the lock or is ahead in line, the waiter sends nothing, and each
// poll interval counts as a try. By default there is no limit.
func WithMaxAttempts(n int) Option {
	return checked(n > 0, func(c *config) { c.maxAttempts = n }, "WithMaxAttempts(%d): has to be 1 at least; leave it out for no limit", n)
}

// WithQueue makes waiters queue on the server instead of polling, in order of arrival by its clock. Unlock hands the lock to
// the process that has waited longest, and wakes it by pub/sub. A Client has one place in the queue for each key, however many
// of its goroutines wait. Clients that do not queue share the lock safely, but they may overtake the queue, or starve.
//
// It is for a single server. With several it panics, because their waiters poll. While a goroutine waits, and for up to seven
// seconds after that, its Client keeps one more connection to the server, outside the limit of the [Pool]. If the Redis user
// may not subscribe, or if the Pool can't dial and exports no *redis.Pool, a waiter polls, and comes after those in the queue.
//
// A waiter also asks the server by itself, at least once a second. So a lost message, or a holder that knows nothing of the
// queue, delays the waiter and never blocks it. A dead waiter costs nothing once its connection is closed. But one of an
// [RWMutex] may keep the other side out until a second plus a node timeout after it last asked. A waiter that hangs while
// subscribed delays the others once, by a node timeout plus 85 ms plus two of its round trips, and then goes to the end of the
// queue. A dead waiter does the same in a Redis Cluster, and over a Pool that has Dial and exports no *redis.Pool.
//
// A hand-off gives a lease of only a node timeout plus 85 ms plus two round trips. The new holder asks for its TTL after 10
// ms. Until that is granted, Lease.Until is near, and a longer pause or stall ends the lease.
func WithQueue() Option { return func(c *config) { c.terms.Queue = true } }

// WithFencing gives each hold a fencing token, [Lease.Fence]: a number that is higher than that of every earlier hold of the
// key, in any process. A resource that remembers the highest fence it has seen, and refuses lower ones, is safe from a holder
// that was paused past its lease. Nothing else is. See
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html.
//
// A fence is the last one plus 1, or the server's clock in µs if that is higher. So fences rise even if the last one was lost.
// The last fence is kept in a second key in the same cluster slot, which expires an hour and a TTL after its last use. With
// several servers the fence is the highest of the quorum, written back to a quorum before Lock returns.
func WithFencing() Option { return func(c *config) { c.terms.Fence = server.NextFence } }

// WithReplicas makes a lock, and each renewal, count only once n replicas have confirmed it (WAIT). So a failover to one of
// them does not lose the lock. If fewer confirm within timeout, the try fails with [ErrUnavailable], and the lock is released
// in the background. On one server, a call that goes on waiting keeps the lock between its tries: its next try may succeed
// with that lock, and other callers find it locked until the call ends. Locking takes as long as the replication lag; with
// [WithFencing] over several servers twice as long, but never longer than timeout. The timeout is at least 1 ms, and less than
// the TTL minus the node timeout.
func WithReplicas(n int, timeout time.Duration) Option {
	return checked(n > 0 && timeout >= time.Millisecond, func(c *config) { c.terms.Replicas = server.Replicas{N: n, Timeout: timeout} },
		"WithReplicas(%d, %v): has to be 1 replica and 1 ms at least", n, timeout)
}

// WithRestartGuard keeps a server that has lost its data from voting for one TTL. By then every lock that it forgot has
// expired. It is for Redlock over servers without persistence, where a restart could otherwise let a second holder in. All
// clients of the servers must use it, with the same TTL. A lock that lasts longer, by [Lease.Extend], [WithMinHold] or
// [Lease.HandOver], is protected for that TTL only. With a Redis Cluster it panics.
//
// It costs one TTL of waiting whenever a server starts empty, even the very first time: nothing can be locked until a TTL
// after the first request to a majority of the servers. Each server keeps one key that does not expire, redimutex:guard. The
// guard does not notice a server that comes back with old data from a snapshot: switch persistence off, or fsync always.
func WithRestartGuard() Option { return func(c *config) { c.terms.Guard = true } }

// WithReentrancy lets Do and TryDo nest: with the ctx of an outer Do of the same key and pools, they run inside the hold of
// that Do. They have the fence of that hold, if any. The outermost Do releases the lock when all inner ones have returned.
//
// The hold belongs to the ctx, not to a goroutine: several goroutines with the same ctx do not exclude each other. Every other
// method that would lock the same key with that ctx returns an error at once, as without this option: see [Mutex.Do].
func WithReentrancy() Option { return func(c *config) { c.reentrant = true } }

// WithOwner appends label to the token of each hold, so an operator who looks at the key sees who has it. It has at
// most 256 bytes and no control characters. It is not secret.
func WithOwner(label string) Option { return func(c *config) { c.terms.Owner = label } }

// WithTrace calls the functions of t as things happen to the lock, or to all locks of the Client that is made with it. The
// default is none, and costs nothing. To observe an existing Client, or to stop again, use [Client.Observe].
func WithTrace(t *Trace) Option { return func(c *config) { c.trace = t } }

// WithLogger sets the logger for errors that no return value can carry, such as a server that can't be reached while Lock
// waits, or an Unlock whose lease was lost. The default is [slog.Default], looked up each time.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithNodeTimeout is for experts. It bounds every operation on a server, from the checkout of a connection to the last reply.
// The default is a twentieth of the TTL, at least 50 ms and at most 3 s. With a TTL below 100 ms it is half the TTL. It has to
// be at least 1 ms, and less than the TTL.
func WithNodeTimeout(d time.Duration) Option {
	return checked(d >= time.Millisecond, func(c *config) { c.nodeTimeout = d },
		"WithNodeTimeout(%v): has to be 1ms at least, and less than the TTL", d)
}

// WithLeaseReuse is for experts, for a lock that one process takes thousands of times a second. For up to d after the lock was
// acquired on the servers, Unlock keeps it for the next caller of this Client, without asking them. Each hold has its own
// [Lease], which reports a loss that is found while the hold lasts. After d, or with [Client.Close], the lock is released.
//
// A few ms of d are enough. The maximum is half of the validity, which is the TTL less 1% and 2 ms. It can't be combined with
// [WithMinHold]. Other processes wait up to d longer for the lock. If there are any, combine it with [WithQueue]: a poller
// would have to ask between two periods of d. After a crash the lock stays locked for the TTL even if no caller held it.
// [WithFencing] turns reuse off, because the server gives each hold its fence. A lock that was extended is not reused.
//
// An Unlock that keeps the lock does not ask the servers. So [Mutex.UnlockContext], [Lease.Release] and [Mutex.Do] do not
// report a loss since the last renewal, at most a third of the TTL ago. The release on the servers finds that loss: the Unlock
// after d returns it, or, if the lock is released in the background, the log and [Stats] have it.
func WithLeaseReuse(d time.Duration) Option {
	return checked(d > 0, func(c *config) { c.terms.Reuse = d }, "WithLeaseReuse(%v): has to be more than 0", d)
}

// WithMultiplexing is for experts, for a process in which dozens of goroutines lock different keys at once. The commands of
// the [Client] share conns connections to each server; commands that come at the same time travel in one packet. So such a
// process gets several times as many locks a second. One or two connections are enough for most programs.
//
// The Client dials the connections through its pool, outside the pool's limit, and [Client.Close] closes them. After Close,
// Unlock dials. A connection ends when it is as old as the MaxConnLifetime of the pool, and is not tested on borrow. If a
// reply does not come within the node timeout of the Client, or of the lock if that is longer, its connection ends, and the
// other commands on it go on over another. Connections that have answered nothing sent after that command are replaced, too.
//
// It is an option of [NewClient] and of the short forms, such as [New]. It panics if conns is not from 1 to 1000, if the [Pool]
// can't dial, for a Redis Cluster, whose servers differ by key, and with [WithReplicas], whose WAIT would delay all others.
func WithMultiplexing(conns int) Option {
	return checked(conns > 0 && conns <= maxConns, func(c *config) { c.conns = conns },
		"WithMultiplexing(%d): has to be from 1 to %d; leave it out to use connections of the pool", conns, maxConns)
}
