// Package wakeup is this process's end of the queues on the servers: who waits, and the connections
// over which the servers wake them.
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

// A Hub passes the messages of all servers on to the waiters of one Client. It listens while
// somebody waits, and a little longer, over one connection for each server.
type Hub struct {
	channel   string
	listeners []*listener

	mu      sync.Mutex
	waiters map[string]*Waiter // by name
	idle    *time.Timer        // ends the listening when nobody has waited for a while
	changed chan struct{}      // closed when a listener is in another state
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

// NewHub returns a Hub for the servers. It does not connect.
func NewHub(servers []*server.Server) *Hub {
	h := &Hub{
		channel: "redimutex:" + uuid.NewString(),
		waiters: make(map[string]*Waiter),
		changed: make(chan struct{}),
	}
	for _, s := range servers {
		l := &listener{hub: h, server: s, state: down}
		h.listeners = append(h.listeners, l)
		s.OnDemotion(l.demoted)
	}
	return h
}

// Channel is where the Hub listens, on every server.
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
	for _, l := range h.listeners {
		l.start()
	}
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

// rest stops the listening if still nobody waits.
func (h *Hub) rest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle = nil
	if len(h.waiters) == 0 {
		for _, l := range h.listeners {
			l.stop()
		}
	}
}

// Listening reports whether the Hub hears a majority of the servers.
func (h *Hub) Listening() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count(up) > len(h.listeners)/2
}

// Drops is how often a subscription has ended, and messages may have been lost. A ticket that has
// lapsed while it stands still was called, and its waiter let the hand-off lapse.
func (h *Hub) Drops() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.drops
}

// count counts the listeners in a state. The caller holds h.mu.
func (h *Hub) count(s state) int {
	n := 0
	for _, l := range h.listeners {
		if l.state == s {
			n++
		}
	}
	return n
}

// Listen waits until the Hub hears a majority of the servers, or it is known that it can't just now,
// but not longer than ctx.
func (h *Hub) Listen(ctx context.Context) bool {
	for {
		h.mu.Lock()
		heard, dialling, changed := h.count(up), h.count(dialling), h.changed
		h.mu.Unlock()
		most := len(h.listeners) / 2
		if heard > most || heard+dialling <= most {
			return heard > most
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
	var running []<-chan struct{}
	for _, l := range h.listeners {
		l.stop()
		if l.done != nil {
			running = append(running, l.done)
		}
	}
	h.mu.Unlock()
	if len(running) == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for _, done := range running {
		select {
		case <-done:
		case <-timer.C:
			return
		}
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
