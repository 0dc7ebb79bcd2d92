// Package names has the words that metrics, spans and logs share, so that an operator who has found a lock in one of them can
// look for it in the others.
//
// A program may use an older metrics module with a newer root. So the exported part of this package is only added to, never
// changed.
package names

import (
	"context"
	"errors"
	"strings"

	"github.com/redimutex/redimutex"
)

// The names of labels and attributes.
const (
	Key     = "key"
	Kind    = "kind"    // mutex, semaphore, reader or writer
	Owner   = "owner"   // see [redimutex.WithOwner]
	Fence   = "fence"   // see [redimutex.WithFencing]
	Server  = "server"  // index of its pool in the list given to NewClient, from 0, or a name
	Outcome = "outcome" // how a wait, a hold or a renewal ended; see below
	Reason  = "reason"  // how a lease was lost; see [redimutex.Reason]
	Attempt = "attempt" // number of tries
	Err     = "err"     // what went wrong, in the words of the error
)

// How a wait ends.
const (
	Acquired    = "acquired"
	Locked      = "locked"      // another process held it until time or tries ran out
	Unavailable = "unavailable" // too few servers answered until time or tries ran out
	Refused     = "refused"     // the servers refuse for good
	Cancelled   = "cancelled"   // the caller's context ended
	Closed      = "closed"      // the Client was closed
	Failed      = "failed"      // anything else
)

// Failures are the outcomes of calls that end without the lock. Their counters are created beforehand: a server that collects
// metrics does not notice the first step of a counter that did not exist before.
var Failures = []string{Locked, Unavailable, Refused, Cancelled, Closed, Failed}

// How a hold ends. A renewal ends as [Renewed] or [Failed].
const (
	Released   = "released"
	Lost       = "lost"       // it was lost before Unlock
	Unreleased = "unreleased" // Unlock could not tell enough servers, so the key has to expire
	Renewed    = "renewed"
)

// OfWait returns how a wait ended that returned err. If the caller cancelled the wait, the other errors do not matter: the
// cause may be the loss of another lock.
func OfWait(err error) string {
	var node *redimutex.NodeError
	switch {
	case err == nil:
		return Acquired
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, redimutex.ErrLocked):
		return Locked
	case errors.Is(err, redimutex.ErrUnavailable):
		return Unavailable
	case errors.Is(err, redimutex.ErrClosed):
		return Closed
	case errors.Is(err, context.DeadlineExceeded):
		return Cancelled
	case errors.As(err, &node):
		return Refused
	}
	return Failed
}

// OfHold returns how a hold ended whose Unlock returned err.
func OfHold(err error) string {
	switch {
	case err == nil:
		return Released
	case errors.Is(err, redimutex.ErrLost):
		return Lost
	}
	return Unreleased
}

// OfLoss returns the reason why a lease was lost, or "" if err is no loss.
func OfLoss(err error) string {
	var lost *redimutex.LostError
	if errors.As(err, &lost) {
		return string(lost.Reason)
	}
	return ""
}

// Clean turns names of keys and owners into valid UTF-8. Redis accepts any bytes; with anything but UTF-8 Prometheus and
// OpenTelemetry panic or drop it.
func Clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
