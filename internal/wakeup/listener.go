package wakeup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

// The listener is the goroutine of a Hub that has a subscriber connection to the server. It connects again and again when
// that breaks, until the Hub has had no waiter for a while.

const (
	dialTimeout  = 5 * time.Second
	pingInterval = 2 * time.Second // a server that does not even answer this is given up after three
	minRedial    = 20 * time.Millisecond
	maxRedial    = time.Second
	linger       = 5 * time.Second // how long it listens on after the last waiter: locks that are fought over have others soon
)

// run is the goroutine. There is one at a time: two that listen would hear each message twice.
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

// retire gives the goroutine up, unless the Hub is wanted.
func (h *Hub) retire() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = h.wanted()
	return !h.runs
}

// wanted reports whether the Hub has a waiter, or had one until just now. The caller holds h.mu.
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
	// A replica is no place to listen: locks are handed over at the primary. An answer that is not understood, or denied, passes.
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
		w.tell(Wake{Fence: fence, Granted: true})
	}
}

// watch ends the connection when ctx ends or the Hub is not wanted any more. It makes the server say something now and
// then, so that a dead connection is noticed. A demotion leaves the subscription at a replica, while the pool leads to the new
// primary; and a node that was removed from its cluster hears no other node. So watch also calls the Hub from where a lock
// would be handed over.
func (h *Hub) watch(ctx context.Context, c redis.Conn) {
	defer conn.Close(c, false) // which ends the reading
	defer conn.Caught(new(error))
	for began, called := time.Now(), false; ; {
		select {
		case <-time.After(pingInterval):
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		wanted, key := h.wanted(), h.key
		h.mu.Unlock()
		silent := called && !h.heard.Load() || !h.Listening() && time.Since(began) > 3*pingInterval
		if !wanted || silent || c.Send("PING") != nil || c.Flush() != nil {
			return
		}
		h.heard.Store(false)
		if called = h.Listening(); called {
			var unheard bool
			if called, unheard = h.server.Call(ctx, key, h.channel, pingInterval); unheard {
				return
			}
		}
	}
}
