package redimutex

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// There is one error for each thing that a caller would do differently. Test for it with [errors.Is]. [errors.As] gets the
// details: *[LockedError], *[LostError] and *[NodeError].
var (
	// ErrLocked says that another holder, or a lost hold that was not unlocked, has the lock. [LockedError] says who, if known.
	ErrLocked = errors.New("locked by another holder")
	// ErrLost says that the lease ended before Unlock: the work may have overlapped with another holder's. See [LostError].
	ErrLost = errors.New("lease lost")
	// ErrUnlocked says that the lock was not locked. It is also the [Lease.Err] of a hold that Unlock or HandOver has ended.
	ErrUnlocked = errors.New("not locked")
	// ErrUnavailable says that too few servers answered. A [NodeError] for each server that failed says why.
	ErrUnavailable = errors.New("too few servers answered")
	// ErrClosed says that the Client was closed.
	ErrClosed = errors.New("client closed")
)

// A LockedError says who holds a lock. It matches [ErrLocked].
type LockedError struct {
	Key    string        // of a MutexAll: a key that is held or, if that is unknown, the first key
	Owner  string        // the holder's label, see [WithOwner]; empty if it has none or is unknown, and for readers
	Left   time.Duration // the rest of the holder's TTL; negative if the key has none, 0 if unknown
	Nested bool          // the Do that gave the call its ctx is the holder: the wait would never end

	upgrade bool // Nested, and the call would write inside an RDo
}

func (e *LockedError) Error() string {
	s := fmt.Sprintf("redimutex: %q: %v", e.Key, ErrLocked)
	switch {
	case e.upgrade:
		return fmt.Sprintf("redimutex: %q: nested: the hold of this ctx reads, and a reader can't become a writer: "+
			"two that tried would wait for each other; end that hold first", e.Key)
	case e.Nested:
		return fmt.Sprintf("redimutex: %q: nested: locked by the Do that gave this ctx, so the wait would never end; "+
			"with WithReentrancy, Do and TryDo run inside it, if it has all their keys", e.Key)
	}
	if e.Owner != "" {
		s += ", " + e.Owner
	}
	switch {
	case e.Left > 0:
		s += fmt.Sprintf(", for another %v", e.Left)
	case e.Left < 0:
		s += ", with a key that never expires"
	}
	return s
}

// Is reports whether target is [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// A Reason says how a lease was lost.
type Reason string

const (
	Expired Reason = "expired" // its validity ran out: no renewal got through in time, or none was due, as after [WithMaxHold]
	Deleted Reason = "deleted" // its key was deleted or evicted, or the server lost its data
	Taken   Reason = "taken"   // its key holds another token
	Closed  Reason = "closed"  // the Client was closed; the error matches ErrClosed as well
)

// A LostError says why a lease ended before Unlock. It matches [ErrLost].
type LostError struct {
	Key    string
	Reason Reason
}

func (e *LostError) Error() string {
	return fmt.Sprintf("redimutex: %q: %v: %s", e.Key, ErrLost, e.Reason)
}

// Is reports whether target is [ErrLost], or [ErrClosed] when that was the reason.
func (e *LostError) Is(target error) bool {
	return target == ErrLost || target == ErrClosed && e.Reason == Closed
}

// A NodeError says why one server did not vote.
type NodeError struct {
	Node int   // index of its pool in the list given to NewClient
	Err  error // the server's own words, or what happened to the connection
}

func (e *NodeError) Error() string { return fmt.Sprintf("server %d: %v", e.Node, e.Err) }

// Unwrap returns Err.
func (e *NodeError) Unwrap() error { return e.Err }

// A wordedError is a message that matches several errors.
type wordedError struct {
	words   string
	matches []error
}

func (e *wordedError) Error() string   { return e.words }
func (e *wordedError) Unwrap() []error { return e.matches }

// endedBy returns the error of a call that stopped because ctx ended; why is what stood in the way before that, or nil. If ctx
// was cancelled, the error is the cause alone: the caller needs no more. If time ran out, the error also says for what.
func endedBy(ctx context.Context, key string, why error) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if why != nil && errors.Is(err, context.DeadlineExceeded) {
		return &wordedError{fmt.Sprintf("%v (%v)", why, cause), []error{why, cause, err}}
	}
	return &wordedError{fmt.Sprintf("redimutex: %q: %v", key, cause), []error{cause, err}}
}

func unlockedError(key, verb string) error {
	return fmt.Errorf("redimutex: %q: %s: %w", key, verb, ErrUnlocked)
}
