// Package wakeup is this process's end of the queues on the server: who waits, and the connection over which the server
// wakes them.
package wakeup

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/redimutex/redimutex/internal/server"
)

// A Wake is a message to a waiter.
type Wake struct {
	Fence   int64 // of the hold that the waiter is given, with fencing
	Granted bool  // false: nothing was given, but something may have been missed, so look again
}

// A Hub passes the messages of the server on to the waiters of one Client. It listens while one of them
// waits, and a little longer, over one connection.
type Hub struct {
	channel  string
	listener *listener

	mu      sync.Mutex
	waiters map[string]*Waiter // by name
	idle    *time.Timer        // ends the listening when no process has waited for a while
	changed chan struct{}      // closed when the listener is in another state
	drops   uint64
	closed  bool
}

// A Waiter is told when it is its turn. The channel holds one message: a newer one replaces it.
type Waiter struct {
	hub  *Hub
	name string
	wake chan Wake
}

// linger is how long the Hub listens after the last waiter has left: locks that are fought over have
// waiters again and again.
const linger = 5 * time.Second

// NewHub returns a Hub for the server. It does not connect.
func NewHub(s *server.Server) *Hub {
	h := &Hub{
		channel: "redimutex:" + uuid.NewString(),
		waiters: make(map[string]*Waiter),
		changed: make(chan struct{}),
	}
	h.listener = &listener{hub: h, server: s, state: down}
	s.OnDemotion(h.listener.demoted)
	return h
}

// Channel is where the Hub listens.
func (h *Hub) Channel() string { return h.channel }

// Join makes the Hub pass on messages for the ticket of that name. It starts listening.
func (h *Hub) Join(name string) *Waiter {
	w := &Waiter{hub: h, name: name, wake: make(chan Wake, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return w
	}
	h.waiters[name] = w
	if h.idle != nil {
		h.idle.Stop()
		h.idle = nil
	}
	h.listener.start()
	return w
}

// Wake returns the channel on which the messages arrive.
func (w *Waiter) Wake() <-chan Wake { return w.wake }

// Leave ends the waiting. A message that comes after it is dropped.
func (w *Waiter) Leave() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiters, w.name)
	if len(h.waiters) == 0 && !h.closed && h.idle == nil {
		h.idle = time.AfterFunc(linger, h.rest)
	}
}

// rest stops the listening if still no caller waits.
func (h *Hub) rest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle = nil
	if len(h.waiters) == 0 {
		h.listener.stop()
	}
}

// Listening reports whether the Hub hears the server.
func (h *Hub) Listening() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listener.state == up
}

// Drops is how often a subscription has ended, and messages may have been lost. A ticket that has
// lapsed while it stands still was called, and its waiter let the hand-off lapse.
func (h *Hub) Drops() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.drops
}

// Listen waits until the Hub hears the server, or it is known that it can't just now, but not longer than ctx.
func (h *Hub) Listen(ctx context.Context) bool {
	for {
		h.mu.Lock()
		state, changed := h.listener.state, h.changed
		h.mu.Unlock()
		if state != dialling {
			return state == up
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// Close ends the listening, and waits for that, d at most. Waiters get no more messages.
func (h *Hub) Close(d time.Duration) {
	h.mu.Lock()
	h.closed = true
	if h.idle != nil {
		h.idle.Stop()
		h.idle = nil
	}
	h.listener.stop()
	done := h.listener.done
	h.mu.Unlock()
	if done == nil {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// deliver passes on the message "fence name".
func (h *Hub) deliver(message string) {
	word, name, _ := strings.Cut(message, " ")
	fence, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.waiters[name]; w != nil {
		w.put(Wake{Fence: fence, Granted: true})
	}
}

// alarm makes every waiter look again: messages may have been lost. The caller holds h.mu.
func (h *Hub) alarm() {
	if h.closed {
		return
	}
	for _, w := range h.waiters {
		select {
		case w.wake <- Wake{}:
		default: // it has a message already
		}
	}
}

// put leaves the message for the waiter, in place of an older one. The caller holds hub.mu.
func (w *Waiter) put(m Wake) {
	select {
	case <-w.wake:
	default:
	}
	w.wake <- m
}
