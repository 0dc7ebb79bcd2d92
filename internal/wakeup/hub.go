// Package wakeup is this process's end of the queues on the server: it has the waiters, and the connection that wakes them.
package wakeup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/server"
	"github.com/redimutex/redimutex/internal/underway"
)

// A Wake is a message to a waiter.
type Wake struct {
	Fence   int64 // with fencing: of the hold that the waiter is granted
	Granted bool  // false: nothing was granted, but a message may have been lost, so look again
}

// A Hub passes messages of the server on to the waiters of one Client. It listens over one connection while there are any.
type Hub struct {
	channel        string
	server         *server.Server
	closing        context.Context
	underway.Count // the goroutine that listens

	mu      sync.Mutex
	waiters map[string]*Waiter // by name
	key     string             // of the lock that the newest waiter wants
	left    time.Time          // when a waiter last left
	runs    bool               // the goroutine that listens is running
	up      atomic.Bool        // that goroutine is subscribed; up and the fields below may be used without mu
	drops   atomic.Uint64
	heard   atomic.Bool // a message has come since watch last looked
}

// A Waiter is told when it is its turn. Its channel holds one message: the newest grant or, without one, a request to look
// again. The waiter looks again because it can queue now, or because messages may have been lost.
type Waiter struct {
	hub  *Hub
	name string
	wake chan Wake
}

// prefix begins the name of a channel. It says whether the waiter may listen at another node of a cluster: see queue.lua.
var prefix = map[bool]string{false: "redimutex:", true: "redimutex:cluster:"}

// NewHub returns a Hub for s that listens until closing ends. It does not connect.
func NewHub(closing context.Context, s *server.Server) *Hub {
	return &Hub{channel: prefix[s.Source.Scattered] + uuid.NewString(), server: s, closing: closing, waiters: make(map[string]*Waiter)}
}

// Join makes the Hub pass on messages for the ticket called name, which is for the lock at key. Join starts the listening. If
// the pool can't listen, the waiter has to poll.
func (h *Hub) Join(name, key string) *Waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.runs && h.server.Source.Listen != nil {
		h.runs = true
		h.Go(h.run)
	}
	w := &Waiter{hub: h, name: name, wake: make(chan Wake, 1)}
	h.waiters[name], h.key = w, key
	return w
}

// Leave ends the waiting. A message that comes later is dropped.
func (w *Waiter) Leave() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiters, w.name)
	h.left = time.Now()
}

func (h *Hub) Channel() string      { return h.channel }
func (h *Hub) Listening() bool      { return h.up.Load() }
func (h *Hub) Drops() uint64        { return h.drops.Load() } // how often a subscription has ended, perhaps with messages lost
func (w *Waiter) Wake() <-chan Wake { return w.wake }

// setListening notes whether the Hub is subscribed, and reports whether that has changed. If it has, all waiters look again.
func (h *Hub) setListening(up bool) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed = h.up.Swap(up) != up
	if !changed {
		return false
	}
	if !up {
		h.drops.Add(1)
	}
	for _, w := range h.waiters {
		w.tell(Wake{})
	}
	return true
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

const (
	dialTimeout  = 5 * time.Second
	pingInterval = 2 * time.Second // a server that sends nothing for three of these is given up
	minRedial    = 20 * time.Millisecond
	maxRedial    = time.Second
	linger       = 5 * time.Second // after the last waiter has left: a contended lock soon has another one
)

// run is the goroutine that listens. It keeps a subscriber connection to the server, and connects again when that breaks,
// until the Hub has had no waiter for a while. Only one such goroutine runs: two would hear each message twice.
func (h *Hub) run() {
	for wait := time.Duration(0); !h.retire(); wait = min(max(2*wait, minRedial), maxRedial) {
		select {
		case <-time.After(wait):
			h.listen()
			if h.setListening(false) {
				wait = 0
			}
		case <-h.closing.Done():
		}
	}
}

// retire reports whether the listening goroutine has to stop, because the Hub is not wanted. Then Join may start another.
func (h *Hub) retire() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = h.wanted()
	return !h.runs
}

// wanted reports whether the Hub has a waiter, or had one until just now, and is not closing. The caller holds h.mu.
func (h *Hub) wanted() bool {
	return h.closing.Err() == nil && (len(h.waiters) > 0 || time.Since(h.left) < linger)
}

// listen subscribes and passes messages on until the connection breaks.
func (h *Hub) listen() {
	defer conn.Caught(new(error))
	soon, cancel := context.WithTimeout(h.closing, dialTimeout)
	c, err := h.server.Source.Listen(soon)
	cancel()
	if err != nil {
		return
	}
	defer conn.Close(c, false)
	if c.Send("ROLE") != nil || c.Send("SUBSCRIBE", h.channel) != nil || c.Flush() != nil {
		return
	}
	ctx, cancel := context.WithCancel(h.closing)
	var watching sync.WaitGroup
	watching.Go(func() { h.watch(ctx, c) })
	defer watching.Wait()
	defer cancel()
	// Locks are handed off at the primary, so listen leaves a replica. It stays if ROLE is refused or not understood.
	role, err := conn.Receive(c, 3*pingInterval)
	words := fmt.Sprintf("%s", role)
	if strings.HasPrefix(words, "[slave ") || strings.HasPrefix(words, "[replica ") || err != nil && !errors.As(err, new(redis.Error)) {
		return
	}
	for {
		reply, err := conn.Receive(c, 3*pingInterval)
		if err != nil {
			return
		}
		parts, _ := reply.([]any)
		if len(parts) != 3 {
			continue // a pong
		}
		switch kind, _ := redis.String(parts[0], nil); kind {
		case "subscribe":
			h.setListening(true)
		case "message":
			h.heard.Store(true)
			message, _ := redis.String(parts[2], nil)
			h.deliver(message)
		}
	}
}

// deliver passes a message on to its waiter. The message is "fence name".
func (h *Hub) deliver(message string) {
	word, name, _ := strings.Cut(message, " ")
	fence, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.waiters[name]; w != nil {
		w.tell(Wake{Fence: fence, Granted: true})
	}
}

// watch closes the connection when ctx ends or the Hub is not wanted any more. It makes the server send something now and
// then, so that a dead connection is noticed. After a demotion the subscription is at a replica, while the pool leads to the
// new primary; and a node that was removed from its cluster hears no other node. So watch also sends the Hub a message from
// the server that would hand off the lock.
func (h *Hub) watch(ctx context.Context, c redis.Conn) {
	defer conn.Close(c, false) // closing ends the read in listen
	defer conn.Caught(new(error))
	for began, echoed := time.Now(), false; ; {
		select {
		case <-time.After(pingInterval):
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		wanted, key := h.wanted(), h.key
		h.mu.Unlock()
		silent := echoed && !h.heard.Load() || !h.Listening() && time.Since(began) > 3*pingInterval
		if !wanted || silent || c.Send("PING") != nil || c.Flush() != nil {
			return
		}
		h.heard.Store(false)
		if echoed = h.Listening(); echoed {
			var unheard bool
			if echoed, unheard = h.server.Echo(ctx, key, h.channel, pingInterval); unheard {
				return
			}
		}
	}
}
