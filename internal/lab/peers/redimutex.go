//go:build !hand

package peers

// The workers of a benchmark that compares versions are built without: an old version may not have all of this.

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
)

// Quiet takes what our library logs while servers fail, which is no news where they are made to.
var Quiet = slog.New(slog.DiscardHandler)

// ours shares a Mutex among all goroutines that lock the same key, as a sync.Mutex is shared.
type ours struct {
	closing
	client *redimutex.Client
	plain  bool

	mu      sync.Mutex
	mutexes map[string]*redimutex.Mutex
}

// Redimutex locks with a Client, and closes it and then the rest in the end. If plain, it locks as sync.Mutex
// does, without a ctx.
func Redimutex(client *redimutex.Client, plain bool, rest ...io.Closer) Library {
	return &ours{
		closing: append(closing{client}, rest...), client: client, plain: plain, mutexes: make(map[string]*redimutex.Mutex),
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
	return &ourSlot{mutex: m, plain: o.plain}
}

// An ourSlot remembers its lease: when that is lost, the Mutex may have another goroutine's.
type ourSlot struct {
	lease
	mutex *redimutex.Mutex
	plain bool
}

func (s *ourSlot) Lock(ctx context.Context) error {
	if s.plain {
		s.mutex.Lock()
		return s.got(nil)
	}
	return s.got(s.mutex.LockContext(ctx, 0))
}

func (s *ourSlot) TryLock(ctx context.Context) error { return s.got(s.mutex.TryLockContext(ctx)) }

func (s *ourSlot) got(err error) error {
	if err == nil {
		s.Lease = s.mutex.Lease()
	}
	return err
}

func (s *ourSlot) Unlock(ctx context.Context) error { return Gone(s.mutex.UnlockContext(ctx)) }

// A lease is what a Slot of ours tells of its hold.
type lease struct{ *redimutex.Lease }

func (l lease) Valid() bool { return l.Err() == nil }

func (l lease) Extend(ctx context.Context, ttl time.Duration) error {
	return Gone(l.Lease.Extend(ctx, ttl))
}

// A Handle is a Slot over any kind of lock of ours, by what gives leases of it.
type Handle struct {
	lease
	acquire, try Acquire
}

// Acquire is Acquire, RAcquire, TryAcquire and the like.
type Acquire func(context.Context) (*redimutex.Lease, error)

// NewHandle makes one that is not locked.
func NewHandle(acquire, try Acquire) *Handle { return &Handle{acquire: acquire, try: try} }

// Held is one that is locked.
func Held(l *redimutex.Lease) *Handle { return &Handle{lease: lease{l}} }

func (h *Handle) Lock(ctx context.Context) (err error) {
	h.Lease, err = h.acquire(ctx)
	return err
}

func (h *Handle) TryLock(ctx context.Context) (err error) {
	h.Lease, err = h.try(ctx)
	return err
}

func (h *Handle) Unlock(ctx context.Context) error { return Gone(h.Release(ctx)) }

// Gone marks the losses that the servers have told.
func Gone(err error) error {
	if err == nil {
		return nil // what follows has to allocate
	}
	var lost *redimutex.LostError
	if errors.As(err, &lost) && (lost.Reason == redimutex.Deleted || lost.Reason == redimutex.Taken) {
		return errors.Join(ErrGone, err)
	}
	return err
}
