//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redimutex/redimutex"
)

// unlock gives the lock back, and says so if it was lost without anybody noticing before.
func (r *runner) unlock() {
	err := r.mutex.UnlockContext(context.Background())
	var lost *redimutex.LostError
	switch {
	case err == nil || r.told:
	case errors.As(err, &lost):
		r.notes.say("%s; that was noticed only after the command had ended", lostWords(r.key, lost.Reason))
	default:
		r.notes.say("can't give the lock %q back, so it stays until its TTL is over: %s", r.key, r.servers.Failures(err))
	}
}

// lostWords says how a lock was lost.
func lostWords(key string, reason redimutex.Reason) string {
	why := "it was " + string(reason)
	switch reason {
	case redimutex.Expired:
		why = "it expired, because it could not be renewed in time"
	case redimutex.Deleted:
		why = "its key was deleted, or the server lost its data"
	case redimutex.Taken:
		why = "somebody else has overwritten its key"
	case redimutex.Closed:
	}
	return fmt.Sprintf("the lock %q was lost: %s", key, why)
}

// abandon gives back a lock before a command was started. What can't be given back expires.
func (r *runner) abandon(ctx context.Context) {
	token := r.mutex.Lease().Token()
	r.mutex.UnlockContext(ctx) //nolint:errcheck // it expires
	r.forget(token)
}

// forget deletes the lock of that token, which -min-hold has kept although no command has run under it.
func (r *runner) forget(token string) {
	if r.minHold == 0 {
		return
	}
	var each sync.WaitGroup
	for _, n := range r.servers {
		each.Go(func() { n.Release(r.key, token, r.minHold, r.queue) }) //nolint:errcheck // then it expires
	}
	each.Wait()
}
