package lock

import (
	"time"

	"github.com/google/uuid"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// Terms are what one lock asks for. They are not changed, and are compared by value: calls with equal terms
// may follow each other in one grant, and in one place in the queue.
type Terms struct {
	TTL            time.Duration
	NodeTimeout    time.Duration
	Renew          bool
	MaxHold        time.Duration
	MinHold        time.Duration
	Owner          string
	Fencing        bool
	Guard          bool
	Queue          bool
	Reuse          time.Duration
	Replicas       int
	ReplicaTimeout time.Duration
}

// maxLook is the longest wait between two looks at the queue, and minLook the shortest; see ticket.pace.
const (
	minLook = 75 * time.Millisecond
	maxLook = time.Second
)

// token returns a new token: a random UUID, and the owner's label.
func (t *Terms) token() string {
	id := uuid.NewString()
	if t.Owner != "" {
		id += server.OwnerMark + t.Owner
	}
	return id
}

func (t *Terms) lock(key, token string) server.Lock {
	return server.Lock{Key: key, Token: token, Timeout: t.NodeTimeout}
}

// try describes a try for the lock.
func (t *Terms) try(key, token string) server.Try {
	return server.Try{
		Lock: t.lock(key, token), TTL: t.TTL, Fencing: t.Fencing, Guard: t.Guard,
		Replicas: t.replicas(), Queue: t.Queue,
	}
}

func (t *Terms) replicas() server.Replicas {
	return server.Replicas{N: t.Replicas, Timeout: t.ReplicaTimeout}
}

// extension describes an extension to ttl.
func (t *Terms) extension(key, token string, ttl time.Duration) server.Extension {
	return server.Extension{Lock: t.lock(key, token), TTL: ttl, Fencing: t.Fencing, Replicas: t.replicas()}
}

// release describes a release of what may live for ttl from now on.
func (t *Terms) release(key, token string, now time.Time, ttl time.Duration) server.Release {
	try := t.try(key, token)
	return try.Release(now, max(ttl, t.MinHold))
}

// bound is how long an operation may take.
func (t *Terms) bound() time.Duration { return t.NodeTimeout + t.ReplicaTimeout }

// handOff is the hand-off lease of a waiter that is so far from the servers: it outlasts the waiter's way to
// extend it, which it does not do at once, a stall of the server of one node timeout, and the age of the waiter's
// last look.
func (t *Terms) handOff(rtt time.Duration) time.Duration {
	return min(t.NodeTimeout+2*rtt+minLook+keepalive.Patience, t.TTL)
}

// drift is what a lease of ttl loses to clocks that run at different speeds.
func drift(ttl time.Duration) time.Duration { return quorum.Drift(ttl) }
