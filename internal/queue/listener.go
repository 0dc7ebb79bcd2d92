package queue

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/server"
)

// A listener is the subscriber connection to one server. It has a goroutine while it is started,
// which connects again and again when the connection breaks.
type listener struct {
	hub    *Hub
	server *server.Server

	// These are protected by hub.mu.
	state  state
	cancel context.CancelFunc // not nil: started
	done   chan struct{}      // closed when the goroutine, and those before it, have ended
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
	if l.cancel != nil {
		return
	}
	previous := l.done
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

// change tells of another state. The caller holds hub.mu.
func (l *listener) change(s state) {
	if l.state == s {
		return
	}
	l.state = s
	close(l.hub.changed)
	l.hub.changed = make(chan struct{})
}

// set is change for the goroutine, which has nothing to say after it was stopped: another may have
// been started since. Waiters look again when we hear the server: messages may have been lost before.
func (l *listener) set(ctx context.Context, s state) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	l.change(s)
	if s == up {
		l.hub.alarm()
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

// listen subscribes and passes messages on until the connection breaks. It reports whether it had
// been subscribed.
func (l *listener) listen(ctx context.Context) (subscribed bool) {
	soon, cancel := context.WithTimeout(ctx, dialTimeout)
	conn, borrowed, err := l.server.Dial(soon)
	cancel()
	if err != nil {
		return false
	}
	defer conn.Close()
	if borrowed {
		defer spoil(conn)
	}
	if conn.Send("SUBSCRIBE", l.hub.channel) != nil || conn.Flush() != nil {
		return false
	}
	reading, stopWriting := context.WithCancel(ctx)
	var writing sync.WaitGroup
	writing.Go(func() { write(reading, conn, borrowed) })
	defer writing.Wait()
	defer stopWriting()
	for {
		reply, err := receive(conn, 3*pingInterval)
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
			l.set(ctx, up)
		case "message":
			payload, _ := parts[2].([]byte)
			l.hub.deliver(string(payload))
		case "unsubscribe":
			return subscribed
		}
	}
}

// write makes the server say something now and then, so that a dead connection is noticed, and ends
// the reading when ctx ends, which does not hear of it in any other way. A connection that is not
// ours must not be closed while somebody reads from it, so the server is asked for a last word.
func write(ctx context.Context, conn redis.Conn, borrowed bool) {
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if conn.Send("PING") != nil || conn.Flush() != nil {
				return
			}
		case <-ctx.Done():
			if !borrowed {
				conn.Close()
			} else if conn.Send("UNSUBSCRIBE") == nil {
				_ = conn.Flush() // if it fails, the reading has failed as well
			}
			return
		}
	}
}

// receive reads the next reply, for ever if the connection knows no timeouts.
func receive(conn redis.Conn, d time.Duration) (any, error) {
	if c, ok := conn.(redis.ConnWithTimeout); ok {
		return c.ReceiveWithTimeout(d)
	}
	return conn.Receive()
}

// spoil breaks a connection before it goes back to its pool: one that was subscribed is of no use to
// others, and redigo would wait without limit for a server to say so.
func spoil(conn redis.Conn) {
	if c, ok := conn.(redis.ConnWithTimeout); ok {
		_, _ = c.ReceiveWithTimeout(time.Nanosecond)
	}
}
