package lock

import (
	"time"

	"github.com/google/uuid"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/server"
)

// Terms are what one lock asks for. They are not changed, and are compared by value: calls with equal terms
// may follow each other in one grant.
type Terms struct {
	server.Terms
	Renew   bool
	MaxHold time.Duration
	MinHold time.Duration
	Owner   string
	Reuse   time.Duration
}

// maxLook is the longest wait between two looks at the queue, and minLook the shortest; see ticket.pace.
const (
	minLook = 75 * time.Millisecond
	maxLook = time.Second
)

// Token returns a new token: a random UUID, and the owner's label.
func (t *Terms) Token() string {
	id := uuid.NewString()
	if t.Owner != "" {
		id += server.OwnerMark + t.Owner
	}
	return id
}

// handOff is the hand-off lease of a waiter that is so far from the server: it outlasts the waiter's way to
// extend it, which it does not do at once, a stall of the server of one node timeout, and the age of the waiter's
// last look.
func (t *Terms) handOff(rtt time.Duration) time.Duration {
	return min(t.Timeout+2*rtt+minLook+keepalive.Patience, t.TTL)
}
