//go:build !hand

package peers

// The workers of a benchmark that compares versions are built without this file: an old version may not have all that it uses.

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
)

// Quiet drops what this library logs when servers fail. It is for programs that make servers fail on purpose.
var Quiet = slog.New(slog.DiscardHandler)

// ours shares a Mutex among all goroutines that lock the same key, as a sync.Mutex is shared.
type ours struct {
	closing
	client *redimutex.Client
	plain  bool

	mu      sync.Mutex // guards mutexes
	mutexes map[string]*redimutex.Mutex
}

// Redimutex locks with a Client. Close closes the Client, and then the rest. If plain, Lock uses no ctx, as with sync.Mutex.
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

// An ourSlot remembers its lease: once that is lost, the Mutex may have the lease of another goroutine.
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

// A lease is what a Slot of this library reports about its hold.
type lease struct{ *redimutex.Lease }

func (l lease) Valid() bool { return l.Err() == nil }

func (l lease) Extend(ctx context.Context, ttl time.Duration) error {
	return Gone(l.Lease.Extend(ctx, ttl))
}

// A Handle is a Slot over any kind of lock of this library, made from the functions that acquire it.
type Handle struct {
	lease
	acquire, try Acquire
}

// Acquire is the type of methods such as Acquire, RAcquire and TryAcquire.
type Acquire func(context.Context) (*redimutex.Lease, error)

// NewHandle returns a Handle that is not locked.
func NewHandle(acquire, try Acquire) *Handle { return &Handle{acquire: acquire, try: try} }

// Held returns a Handle that is locked.
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

// Gone adds ErrGone to a loss that the servers have reported.
func Gone(err error) error {
	if err == nil {
		return nil // the code below allocates
	}
	var lost *redimutex.LostError
	if errors.As(err, &lost) && (lost.Reason == redimutex.Deleted || lost.Reason == redimutex.Taken) {
		return errors.Join(ErrGone, err)
	}
	return err
}
