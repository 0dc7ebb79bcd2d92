package peers

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
)

var (
	queue = redimutex.WithQueue()
	reuse = redimutex.WithLeaseReuse(10 * time.Millisecond)
)

func openRedimutex(opts ...redimutex.Option) func(Env) (Locker, error) {
	return func(e Env) (Locker, error) {
		pool := e.pool()
		return newOurs(e, pool, []io.Closer{pool}, opts), nil
	}
}

// openWithContext has every Lock watch a ctx.
func openWithContext(e Env) (Locker, error) {
	e.Cancel = true
	return openRedimutex()(e)
}

// openMultiplexed uses one connection, which is enough for a server that has one thread.
func openMultiplexed(e Env) (Locker, error) {
	pool := e.pool()
	shared := redimutex.Multiplex(pool, 1)
	return newOurs(e, shared, []io.Closer{shared, pool}, nil), nil
}

// Ours shares a Mutex among all goroutines that lock the same key, as a sync.Mutex is shared.
type ours struct {
	client  *redimutex.Client
	closers []io.Closer
	cancel  bool

	mu      sync.Mutex
	mutexes map[string]*redimutex.Mutex
}

func newOurs(e Env, pool redimutex.Pool, closers []io.Closer, opts []redimutex.Option) *ours {
	opts = append([]redimutex.Option{redimutex.WithTTL(e.TTL)}, opts...)
	return &ours{
		client:  redimutex.NewClient([]redimutex.Pool{pool}, opts...),
		closers: closers,
		cancel:  e.Cancel,
		mutexes: make(map[string]*redimutex.Mutex),
	}
}

func (o *ours) Slot(key string) Slot {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.mutexes[key]
	if m == nil {
		m = o.client.Mutex(key)
		o.mutexes[key] = m
	}
	if o.cancel {
		return ourSlotWithContext{m}
	}
	return ourSlot{m}
}

func (o *ours) Close() error {
	err := o.client.Close()
	for _, c := range o.closers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// ourSlot locks as sync.Mutex does.
type ourSlot struct{ *redimutex.Mutex }

func (s ourSlot) Lock(context.Context) error {
	s.Mutex.Lock()
	return nil
}

func (s ourSlot) Unlock() error { return s.UnlockContext(context.Background()) }

// ourSlotWithContext watches the ctx while it waits.
type ourSlotWithContext struct{ *redimutex.Mutex }

func (s ourSlotWithContext) Lock(ctx context.Context) error { return s.LockContext(ctx, 0) }
func (s ourSlotWithContext) Unlock() error                  { return s.UnlockContext(context.Background()) }
