package holds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
)

// A library locks keys, for one process.
type library interface {
	lock(ctx context.Context, key string) (hold, error)
	try(ctx context.Context, key string) (hold, error)
	close()
}

// A hold is a lock that somebody has, as far as the library tells him.
type hold interface {
	fence() int64          // 0: there is none
	until() time.Time      // as the library has promised it
	valid() bool           // asked now
	done() <-chan struct{} // closed when the hold is lost; nil: the library has no such signal
	extend(ctx context.Context, ttl time.Duration) error
	unlock(ctx context.Context) error
}

// errGone is matched by the errors that say that the key is gone, or somebody else's.
var errGone = errors.New("gone")

// A kit says which library to use, and how. It is sent to other processes.
type kit struct {
	Library string
	Addrs   []string // of the servers
	TTL     time.Duration
	Fencing bool          `json:",omitempty"`
	Queue   bool          `json:",omitempty"`
	Fixed   bool          `json:",omitempty"` // no renewal
	Reuse   time.Duration `json:",omitempty"`
	Poll    time.Duration `json:",omitempty"`
}

// libraries are made by name, because another process has to.
var libraries = map[string]func(kit) library{
	"redimutex": newOurs,
	"redsync":   newRedsync,
	"redislock": newRedislock,
}

func (k kit) open() (library, error) {
	make, ok := libraries[k.Library]
	if !ok {
		return nil, fmt.Errorf("no library is called %q", k.Library)
	}
	return make(k), nil
}

// String names the library and what is switched on.
func (k kit) String() string {
	s := k.Library
	for _, o := range []struct {
		on   bool
		name string
	}{
		{k.Queue, "queue"},
		{k.Reuse > 0, "reuse"},
		{k.Fencing, "fencing"},
		{k.Fixed, "without renewal"},
	} {
		if o.on {
			s += ", " + o.name
		}
	}
	if n := len(k.Addrs); n > 1 {
		s += fmt.Sprintf(", %d servers", n)
	}
	return s
}

// redigoPool is a pool as a program has it that gives no thought to timeouts.
func redigoPool(addr string) *redis.Pool {
	return &redis.Pool{MaxIdle: 50, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", addr)
	}}
}

// ours is redimutex. Goroutines share a Mutex for each key, as they would a sync.Mutex.
type ours struct {
	client *redimutex.Client
	pools  []*redis.Pool

	mu      sync.Mutex
	mutexes map[string]*redimutex.Mutex
}

func newOurs(k kit) library {
	o := &ours{mutexes: make(map[string]*redimutex.Mutex)}
	var pools []redimutex.Pool
	for _, addr := range k.Addrs {
		p := redigoPool(addr)
		o.pools = append(o.pools, p)
		pools = append(pools, p)
	}
	opts := []redimutex.Option{
		redimutex.WithTTL(k.TTL),
		redimutex.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))), // failures are what we are here for
	}
	for _, o := range []struct {
		on     bool
		option func() redimutex.Option
	}{
		{k.Queue, redimutex.WithQueue},
		{k.Reuse > 0, func() redimutex.Option { return redimutex.WithLeaseReuse(k.Reuse) }},
		{k.Fencing, redimutex.WithFencing},
		{k.Fixed, redimutex.WithoutRenewal},
		{k.Poll > 0, func() redimutex.Option { return redimutex.WithPollInterval(k.Poll) }},
	} {
		if o.on {
			opts = append(opts, o.option())
		}
	}
	o.client = redimutex.NewClient(pools, opts...)
	return o
}

func (o *ours) mutex(key string) *redimutex.Mutex {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.mutexes[key]
	if m == nil {
		m = o.client.Mutex(key)
		o.mutexes[key] = m
	}
	return m
}

func (o *ours) lock(ctx context.Context, key string) (hold, error) {
	m := o.mutex(key)
	if err := m.LockContext(ctx, 0); err != nil {
		return nil, err
	}
	return &ourHold{m, m.Lease()}, nil
}

func (o *ours) try(ctx context.Context, key string) (hold, error) {
	m := o.mutex(key)
	if err := m.TryLockContext(ctx); err != nil {
		return nil, err
	}
	return &ourHold{m, m.Lease()}, nil
}

func (o *ours) close() {
	o.client.Close()
	for _, p := range o.pools {
		p.Close()
	}
}

type ourHold struct {
	mutex *redimutex.Mutex
	lease *redimutex.Lease
}

func (h *ourHold) fence() int64          { return h.lease.Fence() }
func (h *ourHold) until() time.Time      { return h.lease.Until() }
func (h *ourHold) valid() bool           { return h.lease.Err() == nil }
func (h *ourHold) done() <-chan struct{} { return h.lease.Done() }

func (h *ourHold) extend(ctx context.Context, ttl time.Duration) error {
	return gone(h.lease.Extend(ctx, ttl))
}

func (h *ourHold) unlock(ctx context.Context) error { return gone(h.mutex.UnlockContext(ctx)) }

// gone marks the losses that the servers have told.
func gone(err error) error {
	var lost redimutex.LostError
	if errors.As(err, &lost) && (lost.Reason == redimutex.Deleted || lost.Reason == redimutex.Taken) {
		return errors.Join(errGone, err)
	}
	return err
}
