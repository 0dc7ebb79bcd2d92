//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/server"
)

// release gives the lock back, if we have it, and waits until what an interrupted try has left is cleaned up. It fails
// if -min-hold could not be kept.
func (r *runner) release(ctx context.Context) (err error) {
	defer r.client.Close()
	switch lease := r.lease; {
	case lease == nil:
	case r.watch == nil:
		r.abandon()
	default:
		if err = r.cover(ctx, lease); err == nil {
			r.unlock()
		}
	}
	return err
}

// cover makes the lease last for -min-hold. A release without an answer leaves the key to expire with the lease, so
// that has to be long enough before; it can be repeated, and a release can't.
func (r *runner) cover(ctx context.Context, lease *redimutex.Lease) error {
	for lease.Err() == nil {
		rest := r.minHold - time.Since(r.watch.got)
		if rest <= time.Until(lease.Until()) {
			return nil
		}
		if err := lease.Extend(ctx, rest+rest/50+10*time.Millisecond); err != nil && !pause(ctx) {
			return err
		}
	}
	if r.minHold == 0 || r.watch.ending() {
		return nil
	}
	r.notes.say("the lock %q could not be kept for the %v of -min-hold, so COMMAND may run again before: the server has not answered in time",
		r.name, r.minHold)
	return lease.Err()
}

// unlock gives the lock back, and says so if it was lost and that was not told.
func (r *runner) unlock() {
	err := r.lease.Release(context.Background())
	var lost *redimutex.LostError
	switch {
	case err == nil || r.watch.ending():
	case errors.As(err, &lost):
		r.notes.say("%s; that was noticed only after the command had ended", lostWords(r.name, lost.Reason))
	case r.minHold > 0: // it stays for long enough
	default:
		r.notes.say("can't give the lock %q back, so it stays until its TTL is over: %s", r.name, r.servers.Failures(err))
	}
}

// abandon gives back a lock under which no command has run, whatever -min-hold is. What can't be given back expires.
func (r *runner) abandon() {
	token := r.lease.Token()
	r.lease.Release(context.Background()) //nolint:errcheck // it expires
	r.lease = nil
	if r.minHold == 0 {
		return
	}
	var each sync.WaitGroup
	for _, n := range r.servers {
		for _, key := range r.keys {
			each.Go(func() { n.Release(server.Mutex, key, token, r.minHold, r.queue) }) // or it expires
		}
	}
	each.Wait()
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
		why = "another client has overwritten its key"
	case redimutex.Closed:
	}
	return fmt.Sprintf("the lock %q was lost: %s", key, why)
}
