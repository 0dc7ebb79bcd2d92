package peers

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
	mutex *redimutex.Mutex
	lease *redimutex.Lease
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
		s.lease = s.mutex.Lease()
	}
	return err
}

func (s *ourSlot) Extend(ctx context.Context, ttl time.Duration) error {
	return gone(s.lease.Extend(ctx, ttl))
}

func (s *ourSlot) Unlock(ctx context.Context) error { return gone(s.mutex.UnlockContext(ctx)) }

func (s *ourSlot) Token() string         { return s.lease.Token() }
func (s *ourSlot) Fence() int64          { return s.lease.Fence() }
func (s *ourSlot) Until() time.Time      { return s.lease.Until() }
func (s *ourSlot) Valid() bool           { return s.lease.Err() == nil }
func (s *ourSlot) Done() <-chan struct{} { return s.lease.Done() }

// gone marks the losses that the servers have told.
func gone(err error) error {
	if err == nil {
		return nil // what follows has to allocate
	}
	var lost *redimutex.LostError
	if errors.As(err, &lost) && (lost.Reason == redimutex.Deleted || lost.Reason == redimutex.Taken) {
		return errors.Join(ErrGone, err)
	}
	return err
}
