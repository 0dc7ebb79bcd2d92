// Package peers gives lock libraries one interface: this one, redsync, redislock, rueidislock, and the code of a program
// without a library. The caller decides how servers are reached and which settings are on.
package peers

import (
	"context"
	"errors"
	"io"
	"time"
)

// A Library locks keys, for one process.
type Library interface {
	// Slot returns what one goroutine locks key with.
	Slot(key string) Slot
	Close() error
}

// A Slot is used by one goroutine at a time.
type Slot interface {
	Lock(ctx context.Context) error    // waits until it has the lock, or ctx ends
	TryLock(ctx context.Context) error // tries once
	Extend(ctx context.Context, ttl time.Duration) error
	Unlock(ctx context.Context) error
	Hold
}

// A Hold is what a library tells a process that has the lock.
type Hold interface {
	Token() string         // the value of the key; "": the library does not say
	Fence() int64          // 0: there is none
	Until() time.Time      // when the hold ends, as the library promised
	Valid() bool           // whether the hold is valid now
	Done() <-chan struct{} // closed when the hold is lost; nil: the library has no such signal
}

// ErrGone is matched by the errors that say that the key is gone, or another holder's.
var ErrGone = errors.New("the key is gone, or another holder's")

// Eager is the poll interval for libraries that poll and leave the interval to the caller. It is the shortest that redislock's
// documentation recommends.
const Eager = 16 * time.Millisecond

// goneUnless returns ErrGone for a library that reports a gone key only by ok = false.
func goneUnless(ok bool, err error) error {
	if err == nil && !ok {
		return ErrGone
	}
	return err
}

// silent is the Hold of a library that tells nothing.
type silent struct{}

func (silent) Token() string         { return "" }
func (silent) Fence() int64          { return 0 }
func (silent) Until() time.Time      { return time.Time{} }
func (silent) Done() <-chan struct{} { return nil }

// closing closes all, in that order.
type closing []io.Closer

func (all closing) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
