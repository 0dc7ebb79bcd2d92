package redimutex

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"github.com/redimutex/redimutex/internal/lock"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// An Option changes how the Mutexes of a [Client], or a single [Mutex], behave. Options are checked
// when the Client or Mutex is made; nonsense is a programming error and panics with a sentence
// that names the value and what is allowed.
type Option func(*config)

// config is what the options amount to. It is not changed after it was checked.
type config struct {
	terms       lock.Terms
	poll        time.Duration
	backoff     func(attempt int) time.Duration
	maxAttempts int
	reentrant   bool
	conns       int  // WithMultiplexing; 0: off
	shares      bool // conns was given now, not taken over from the Client
	trace       *Trace
	logger      *slog.Logger

	// As given; nil: not given, so that it depends on the TTL.
	givenPoll, givenNodeTimeout *time.Duration
}

const (
	defaultTTL  = 10 * time.Second
	defaultPoll = 50 * time.Millisecond
	minTTL      = 10 * time.Millisecond
	maxTTL      = 100 * 365 * 24 * time.Hour
	maxOwner    = 256

	maxNodeTimeout = 3 * time.Second // of the default
)

var defaultConfig = *newConfig(&config{terms: lock.Terms{Terms: server.Terms{Kind: server.Mutex, Want: "m", TTL: defaultTTL, Fence: server.NoFence}, Renew: true}}, nil)

// newConfig returns base changed by opts, or panics if that makes no sense.
func newConfig(base *config, opts []Option) *config {
	c := *base
	c.shares = false
	for _, o := range opts {
		must(o != nil, "an Option is nil")
		o(&c)
	}
	c.check()
	return &c
}

func (c *config) check() {
	t := &c.terms
	must(t.TTL >= minTTL, "WithTTL(%v): a lease has to last %v at least", t.TTL, minTTL)
	must(t.TTL <= maxTTL, "WithTTL(%v): a lease can last %v at most", t.TTL, maxTTL)
	c.poll = given(c.givenPoll, min(defaultPoll, t.TTL/2))
	must(c.poll > 0 && c.poll < t.TTL,
		"WithPollInterval(%v): has to be more than 0 and less than the TTL, which is %v", c.poll, t.TTL)
	t.Timeout = given(c.givenNodeTimeout, min(max(t.TTL/20, 50*time.Millisecond), t.TTL/2, maxNodeTimeout))
	must(t.Timeout > 0 && t.Timeout < t.TTL,
		"WithNodeTimeout(%v): has to be more than 0 and less than the TTL, which is %v", t.Timeout, t.TTL)
	must(t.MaxHold == 0 || t.MinHold <= t.MaxHold,
		"WithMinHold(%v): has to be at most WithMaxHold, which is %v", t.MinHold, t.MaxHold)
	must(t.Replicas.Timeout < t.TTL-t.Timeout,
		"WithReplicas: its timeout, %v, and the node timeout, %v, together have to be less than the TTL, which is %v",
		t.Replicas.Timeout, t.Timeout, t.TTL)
	must(t.Reuse <= (t.TTL-quorum.Drift(t.TTL))/2,
		"WithLeaseReuse(%v): has to be less than half the TTL, which is %v", t.Reuse, t.TTL)
	must(t.Reuse == 0 || t.MinHold == 0, "WithLeaseReuse and WithMinHold contradict each other: a lock is either kept or left to expire")
	must(c.conns == 0 || t.Replicas.N == 0,
		"WithMultiplexing(%d): not with WithReplicas, whose WAIT would keep all other commands waiting; use the connections of the pool for such locks", c.conns)
	must(len(t.Owner) <= maxOwner, "WithOwner: the label has %d bytes, %d are allowed", len(t.Owner), maxOwner)
	must(!strings.ContainsFunc(t.Owner, unicode.IsControl), "WithOwner(%q): the label has a control character", t.Owner)
}

// of returns c for objects of another kind.
func (c *config) of(kind *server.Kind, want string) *config {
	changed := *c
	changed.terms.Kind, changed.terms.Want = kind, want
	return &changed
}

// given returns what was given, or else the default.
func given(d *time.Duration, otherwise time.Duration) time.Duration {
	if d != nil {
		return *d
	}
	return otherwise
}

func (c *config) log() *slog.Logger {
	if c.logger != nil {
		return c.logger
	}
	return slog.Default()
}

// must panics with the sentence unless ok.
func must(ok bool, sentence string, args ...any) {
	if !ok {
		panic("redimutex: " + fmt.Sprintf(sentence, args...))
	}
}

// Time.

// WithTTL sets for how long the lock of a holder that crashed stays locked. The default is 10 s,
// the least 10 ms. A holder that lives renews its lease every third of it.
func WithTTL(d time.Duration) Option { return func(c *config) { c.terms.TTL = d } }

// WithMaxHold stops the renewal d after the lock was acquired; the lease is lost within a TTL after that. It guards
// against a holder that hangs but whose process lives. By default there is no limit.
func WithMaxHold(d time.Duration) Option {
	must(d > 0, "WithMaxHold(%v): has to be more than 0", d)
	return func(c *config) { c.terms.MaxHold = d }
}

// WithMinHold keeps the lock locked for at least d: Unlock before that leaves the key to expire when it is d old. It is
// for jobs that must not run twice although the clocks of the machines that start them differ by almost d. By default
// Unlock deletes the key.
func WithMinHold(d time.Duration) Option {
	must(d > 0, "WithMinHold(%v): has to be more than 0", d)
	return func(c *config) { c.terms.MinHold = d }
}

// WithoutRenewal makes the lease end when its TTL is over, whether or not the holder is done. By
// default it is renewed until Unlock.
func WithoutRenewal() Option { return func(c *config) { c.terms.Renew = false } }

// Waiting.

// WithPollInterval sets the wait between two tries of a waiter. The default is 50 ms, or half the TTL
// if that is less. With several servers each wait is varied at random by half, up and down.
func WithPollInterval(d time.Duration) Option {
	return func(c *config) { c.givenPoll = &d }
}

// WithBackoff replaces the poll interval by a wait that depends on the number of the failed try,
// which counts from 1 for each Lock. [Linear], [Exponential] and [Jittered] are ready-made. The wait
// is not limited by the TTL; negative waits count as 0. The function must be safe for concurrent use.
func WithBackoff(wait func(attempt int) time.Duration) Option {
	must(wait != nil, "WithBackoff: the function is nil")
	return func(c *config) { c.backoff = wait }
}

// WithMaxAttempts makes a waiter give up with [ErrLocked] after n tries. While another goroutine of this process holds
// the lock or waits for it, each wait counts as a try, but nothing is sent. The default is to go on until the context
// ends.
func WithMaxAttempts(n int) Option {
	must(n > 0, "WithMaxAttempts(%d): has to be 1 at least", n)
	return func(c *config) { c.maxAttempts = n }
}

// WithQueue makes waiters queue on the server, in order of arrival by its clock, instead of polling: Unlock hands the
// lock to the process that has waited longest and wakes it, by pub/sub. A process has one place in the line for each
// key, however many of its goroutines wait. Each Client keeps one more connection to the server while a goroutine waits,
// outside the limit of the pool. So the Pool has to be a *redis.Pool, embed or export one, or have a method
// Dial() (redis.Conn, error); over one that shows no way to dial, waiters poll.
//
// A waiter also looks by itself, several times a second, so a lost message, or a holder that does not know of the queue,
// delays it and no more. A waiter that died costs nothing if its connection is closed. One that listens but hangs (on a
// Redis Cluster one that died, too) costs, once, what a hand-off lasts: a node timeout, 85 ms, and twice its own round
// trip. A waiter that lets a hand-off lapse goes to the end of the line. A lease that was handed over begins with no more
// than that, and asks for its TTL after 10 ms: until then Lease.Until is near, and a longer pause or stall ends it.
//
// Clients that do not queue share the lock safely, and may overtake. A client that may not subscribe polls, and comes
// after those who wait in line. It is for a single server: with several it panics, because waiters of several servers
// poll.
func WithQueue() Option { return func(c *config) { c.terms.Queue = true } }

// Safety.

// WithFencing gives each hold a fencing token, [Lease.Fence]: a number that is higher than that of every hold of the key
// before, whichever process had it. A resource that remembers the highest fence it has seen and refuses lower ones is
// safe from a holder that was paused past its lease; nothing else is. See
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html.
//
// A fence is the last one plus 1, or the server's clock in µs if that is more, so fences rise also when the last one was
// lost. It is kept in a second key, in the cluster slot of the lock, which expires an hour after its last use. With
// several servers it is the highest of the quorum, written back to a quorum before Lock returns.
func WithFencing() Option { return func(c *config) { c.terms.Fence = server.NextFence } }

// WithReplicas makes a lock count only once n replicas have confirmed it (WAIT), so that a failover to one of them does
// not lose it. If fewer do within timeout, the try fails with [ErrUnavailable], and the lock is released in the
// background. A renewal counts only if they confirm it as well. Locking then takes as long as the replication lags.
func WithReplicas(n int, timeout time.Duration) Option {
	must(n > 0, "WithReplicas(%d): has to be 1 at least", n)
	must(timeout >= time.Millisecond, "WithReplicas: the timeout is %v, and has to be 1 ms at least", timeout)
	return func(c *config) { c.terms.Replicas = server.Replicas{N: n, Timeout: timeout} }
}

// WithRestartGuard keeps a server that has lost its data from voting until one TTL has passed, when every lock that it
// forgot has expired. It is for Redlock over servers without persistence, where a restart could otherwise let a second
// holder in. All clients of the servers must use it, with the same TTL. It is not for a Redis Cluster.
//
// It costs one TTL of waiting whenever a server starts empty, also the very first time: nothing can be locked until a
// majority of the servers was asked a TTL ago. Each server then keeps one key, redimutex:guard, that does not expire. A
// server that comes back with old data, from a snapshot, is not noticed: switch persistence off, or fsync always.
func WithRestartGuard() Option { return func(c *config) { c.terms.Guard = true } }

// Nesting.

// WithReentrancy lets Do and TryDo nest: called for the same key of the same [Client] with the ctx that an outer Do
// gave, they run inside its hold. The outermost releases, when all that run inside have returned.
//
// The hold belongs to the ctx, not to a goroutine: several goroutines with the same ctx do not exclude each other.
// Without this option a nested call would wait for the outer one for ever. It is an error at once, which matches
// [ErrLocked]; so is, with or without the option, every other method that would wait with that ctx for the same key.
func WithReentrancy() Option { return func(c *config) { c.reentrant = true } }

// Seeing.

// WithOwner appends label to the token of each hold, so that an operator who looks at the key sees
// who holds it. At most 256 bytes, no control characters. The label is not secret.
func WithOwner(label string) Option { return func(c *config) { c.terms.Owner = label } }

// WithTrace has the functions of t called as things happen to the Mutex, or to all Mutexes of the Client that is made
// with it. The default is none, and costs nothing. To observe a Client that exists, or to stop again, there is
// [Client.Observe].
func WithTrace(t *Trace) Option { return func(c *config) { c.trace = t } }

// WithLogger sets where errors go that no return value can carry: a server that can't be reached
// while Lock waits, an Unlock whose lease was lost. The default is [slog.Default], looked up each time.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// For experts.

// WithNodeTimeout bounds every single operation on a server, from the checkout of a connection to
// the last reply. The default is a twentieth of the TTL: 50 ms at least (half the TTL, if that is less) and 3 s at
// most, because a caller should not wait longer for a server that hangs, however long its leases are.
func WithNodeTimeout(d time.Duration) Option {
	return func(c *config) { c.givenNodeTimeout = &d }
}

// WithLeaseReuse lets the goroutines of this process follow each other without asking the servers: for up to d after the
// lock was acquired there, Unlock keeps it for the next caller of this Client. Each hold has its own [Lease],
// and learns of a loss that is found while it lasts. When d is over, or the Client is closed, the lock is released. It is
// worth
// most where a lock is taken thousands of times a second, with a few ms of d. Combine it with [WithQueue] where other
// processes want the lock as well: one that polls seldom asks in the moment between.
//
// An Unlock that keeps the lock does not ask the servers. So neither [Mutex.UnlockContext] nor [Lease.Release] nor
// [Mutex.Do] reports that the key was deleted or taken since the last renewal, a third of the TTL ago at most. It is
// reported when the lock is released for good: as the error of the Unlock that does so after d, or, where that happens
// in the background, in the log and in [Stats]. A loss that was known before Unlock is reported as ever.
//
// It is off by default because other processes wait up to d longer, and because after a crash the lock stays locked for
// the TTL even if no process held it. [WithFencing] turns it off: each hold has a fence of its own, which the server gives.
// Nor does a hold follow one that was extended. d has to be less than half the TTL.
func WithLeaseReuse(d time.Duration) Option {
	must(d > 0, "WithLeaseReuse(%v): has to be more than 0", d)
	return func(c *config) { c.terms.Reuse = d }
}

// WithMultiplexing has the commands of a [Client] share conns connections to each server. Those that come at the same time
// travel in one packet, so a process with many busy goroutines gets several times as many locks a second. One or two
// connections are enough for most programs. It gains nothing where few goroutines lock at a time. It is off by default.
//
// The Client dials the connections through its pool, beside the limit of that, and [Client.Close] closes them. They end
// when they are as old as the MaxConnLifetime of the pool, and are not tested on borrow. A reply that is overdue ends a
// connection, and what was under way on it goes on over another. After Close, Unlock dials.
//
// It is an option of [NewClient], [New] and [NewRedlock]. It panics if conns is less than 1, for a Redis Cluster, whose
// servers differ by key, for a pool that can dial no connection beside its own (give the *redis.Pool itself, or a method
// Dial() (redis.Conn, error)), and together with [WithReplicas], whose WAIT would keep all other commands waiting.
func WithMultiplexing(conns int) Option {
	must(conns > 0, "WithMultiplexing(%d): has to be 1 at least; leave it out to use connections of the pool", conns)
	return func(c *config) { c.conns, c.shares = conns, true }
}
