// Package wakeup is this process's end of the queues on the server: who waits, and the connection that wakes them.
package wakeup

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/redimutex/redimutex/internal/server"
	"github.com/redimutex/redimutex/internal/underway"
)

// A Wake is a message to a waiter.
type Wake struct {
	Fence   int64 // of the hold that the waiter is given, with fencing
	Granted bool  // false: nothing was given, but something may have been missed, so look again
}

// A Hub passes the messages of the server on to the waiters of one Client. It listens while one of them
// waits, and a little longer, over one connection.
type Hub struct {
	channel        string
	server         *server.Server
	closing        context.Context
	underway.Count // the goroutine that listens

	mu       sync.Mutex
	waiters  map[string]*Waiter // by name
	key      string             // of the lock that was last waited for
	left     time.Time          // when a waiter last left
	runs     bool               // there is a goroutine that listens
	starting atomic.Bool        // it is not known yet whether its first dial succeeds; may be read without mu, as all below
	up       atomic.Bool        // it is subscribed
	drops    atomic.Uint64
	heard    atomic.Bool // a message has come since the last look
}

// A Waiter is told when it is its turn. The channel holds one message: the newest grant, or else that it has to look again.
type Waiter struct {
	hub  *Hub
	name string
	wake chan Wake
}

// prefix says in the name of a channel whether its waiter may listen at another node of a cluster: see queue.lua.
var prefix = map[bool]string{false: "redimutex:", true: "redimutex:cluster:"}

// NewHub returns a Hub for the server, which listens until closing ends. It does not connect.
func NewHub(closing context.Context, s *server.Server) *Hub {
	return &Hub{channel: prefix[s.Source.Scattered] + uuid.NewString(), server: s, closing: closing, waiters: make(map[string]*Waiter)}
}

// Join makes the Hub pass on messages for the ticket of that name, which is for the lock at key. It starts listening. Where
// the pool can't, the waiter has to poll.
func (h *Hub) Join(name, key string) *Waiter {
	w := &Waiter{hub: h, name: name, wake: make(chan Wake, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters[name], h.key = w, key
	if !h.runs && h.server.Source.Listen != nil {
		h.runs = true
		h.starting.Store(true)
		h.Go(h.run)
	}
	return w
}

// Leave ends the waiting. A message that comes after it is dropped.
func (w *Waiter) Leave() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiters, w.name)
	h.left = time.Now()
}

func (h *Hub) Channel() string      { return h.channel }
func (h *Hub) Listening() bool      { return h.up.Load() }
func (h *Hub) Starting() bool       { return h.starting.Load() } // whether that is not known yet; then each waiter is told
func (h *Hub) Drops() uint64        { return h.drops.Load() }    // how often a subscription has ended, and messages with it
func (w *Waiter) Wake() <-chan Wake { return w.wake }

// setListening notes whether the Hub hears the server, and reports whether that has changed. If it has, or was not known,
// waiters look again: messages may have been lost.
func (h *Hub) setListening(up bool) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed = h.up.Swap(up) != up
	if changed && !up {
		h.drops.Add(1)
	}
	if h.starting.Swap(false) || changed {
		for _, w := range h.waiters {
			w.tell(Wake{})
		}
	}
	return changed
}

// tell leaves a message for the waiter. The caller holds hub.mu.
func (w *Waiter) tell(m Wake) {
	if m.Granted {
		select {
		case <-w.wake: // an older message
		default:
		}
	}
	select {
	case w.wake <- m:
	default:
	}
}
