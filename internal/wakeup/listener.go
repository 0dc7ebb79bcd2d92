package wakeup

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/server"
)

// A listener is the subscriber connection to the server. It has a goroutine while it is started,
// which connects again and again when the connection breaks.
//
//	down ─ start ─→ dialling ─ subscribed ─→ up
//	  ↑                │                     │
//	  ├ failed, stop ──┘                     │
//	  └ broken, demoted, stop ───────────────┘
//
// What is down because it failed or broke is dialled again after a while, and stays down until it
// is up: no caller waits for it.
type listener struct {
	hub    *Hub
	server *server.Server

	// These are protected by hub.mu.
	state  state
	cancel context.CancelFunc // not nil: started
	done   chan struct{}      // closed when the goroutine, and those before it, have ended
	cut    context.CancelFunc // ends the connection that is up
}

type state int

const (
	down     state = iota // stopped, or the last try to connect has failed, or the connection broke
	dialling              // started, and we do not know yet
	up                    // subscribed
)

const (
	dialTimeout  = 5 * time.Second
	pingInterval = 2 * time.Second // a server that does not even answer this is given up after three
	minRedial    = 20 * time.Millisecond
	maxRedial    = time.Second
)

// start starts the goroutine, if there is none. The caller holds hub.mu.
func (l *listener) start() {
	if l.cancel != nil || !l.server.Source().CanListen() { // it stays down, and the waiters poll
		return
	}
	previous := l.done // two that listen at a time would hear each message twice
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	l.done = make(chan struct{})
	l.change(dialling)
	go l.run(ctx, previous, l.done)
}

// stop ends the goroutine, without waiting for it. The caller holds hub.mu.
func (l *listener) stop() {
	if l.cancel == nil {
		return
	}
	l.cancel()
	l.cancel = nil
	l.change(down)
}

// demoted has the listener dial again: its server is a replica now, and the primary, where locks are
// handed over, is elsewhere. One that is about to ask for the server's role finds out by itself.
func (l *listener) demoted() {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if l.state == up {
		l.cut()
		l.change(down)
	}
}

// change tells of another state. Waiters look again when we hear the server, as messages may have been
// lost before, and when we hear it no longer. The caller holds hub.mu.
func (l *listener) change(s state) {
	before := l.state
	if before == s {
		return
	}
	l.state = s
	close(l.hub.changed)
	l.hub.changed = make(chan struct{})
	if before == up {
		l.hub.drops++
	}
	if before == up || s == up {
		l.hub.alarm()
	}
}

// set is change for the goroutine, unless its ctx has ended: then another may have been started since.
func (l *listener) set(ctx context.Context, s state) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if ctx.Err() == nil {
		l.change(s)
	}
}

func (l *listener) run(ctx context.Context, previous <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	if previous != nil {
		<-previous
	}
	wait := minRedial
	for ctx.Err() == nil {
		if l.listen(ctx) {
			wait = minRedial
		}
		l.set(ctx, down)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		wait = min(2*wait, maxRedial)
	}
}

// listen subscribes and passes messages on until the connection breaks. It reports whether it had been subscribed.
func (l *listener) listen(ctx context.Context) (subscribed bool) {
	soon, cancel := context.WithTimeout(ctx, dialTimeout)
	c, err := l.server.Source().Listen(soon)
	cancel()
	if err != nil {
		return false
	}
	defer c.Close()
	ctx, cut := context.WithCancel(ctx)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer cut()
	if c.Send("ROLE") != nil || c.Send("SUBSCRIBE", l.hub.channel) != nil || c.Flush() != nil {
		return false
	}
	writing.Go(func() { l.write(ctx, c) })
	return l.hear(ctx, cut, c)
}

// hear reads the answers to ROLE and SUBSCRIBE, and then what is published. It reports whether it was
// subscribed.
func (l *listener) hear(ctx context.Context, cut context.CancelFunc, c redis.Conn) (subscribed bool) {
	role, err := conn.Receive(c, 3*pingInterval)
	if replica(role) || err != nil && !errors.As(err, new(redis.Error)) {
		return false
	}
	for {
		reply, err := conn.Receive(c, 3*pingInterval)
		if err != nil {
			return subscribed
		}
		parts, _ := reply.([]any)
		if len(parts) != 3 {
			continue // a pong
		}
		kind, _ := parts[0].([]byte)
		switch string(kind) {
		case "subscribe":
			subscribed = true
			l.hub.mu.Lock()
			l.cut = cut
			l.hub.mu.Unlock()
			l.set(ctx, up)
		case "message":
			payload, _ := parts[2].([]byte)
			l.hub.deliver(string(payload))
		}
	}
}

// replica reports whether an answer to ROLE says so. A replica is no place to listen: locks are handed
// over at the primary. An answer that is not understood, or denied, passes.
func replica(role any) bool {
	parts, _ := role.([]any)
	if len(parts) == 0 {
		return false
	}
	word, _ := parts[0].([]byte)
	return string(word) == "slave" || string(word) == "replica"
}

// write makes the server say something now and then, so that a dead connection is noticed, and ends the reading when ctx
// ends, which does not hear of it in any other way. A demotion that no operation has met leaves the subscription at a
// replica, while the pool leads to the new primary; so it also asks there whether a hand-over would be heard.
func (l *listener) write(ctx context.Context, c redis.Conn) {
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if c.Send("PING") != nil || c.Flush() != nil {
				return
			}
			if l.hub.Listening() && l.server.NobodyListens(ctx, l.hub.channel, pingInterval) {
				l.demoted()
			}
		case <-ctx.Done():
			c.Close()
			return
		}
	}
}
