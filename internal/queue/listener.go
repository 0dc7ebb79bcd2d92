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

	mu      sync.Mutex
	cancel  context.CancelFunc // not nil: started
	done    chan struct{}      // closed when the goroutine has ended
	conn    redis.Conn         // not nil: connected
	up      bool               // subscribed
	changed chan struct{}      // closed when up has changed, or a try to connect has failed
}

const (
	dialTimeout  = 5 * time.Second
	pingInterval = 2 * time.Second // a server that does not even answer this is given up after three
	minRedial    = 20 * time.Millisecond
	maxRedial    = time.Second
)

func (l *listener) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		return
	}
	previous := l.done
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	l.done = make(chan struct{})
	l.changed = make(chan struct{})
	go l.run(ctx, previous, l.done)
}

// stop ends the goroutine, without waiting for it.
func (l *listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel == nil {
		return
	}
	l.cancel()
	l.cancel = nil
	if l.conn != nil {
		l.conn.Close() // the reading goroutine has no other way to learn of it
	}
}

// wait waits for the end of a goroutine that was stopped.
func (l *listener) wait() {
	l.mu.Lock()
	done := l.done
	l.mu.Unlock()
	if done != nil {
		<-done
	}
}

func (l *listener) listening() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

// connecting returns a channel that is closed when there is news, or nil if the listener is up or
// not even started.
func (l *listener) connecting() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up || l.cancel == nil {
		return nil
	}
	return l.changed
}

// set notes whether the listener is subscribed, and over which connection.
func (l *listener) set(conn redis.Conn, up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.up = conn, up
	close(l.changed)
	l.changed = make(chan struct{})
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
		l.set(nil, false)
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
	dialling, cancel := context.WithTimeout(ctx, dialTimeout)
	conn, err := l.server.Dial(dialling)
	cancel()
	if err != nil {
		return false
	}
	defer conn.Close()
	l.mu.Lock()
	if ctx.Err() != nil {
		l.mu.Unlock()
		return false
	}
	l.conn = conn
	l.mu.Unlock()
	if conn.Send("SUBSCRIBE", l.hub.channel) != nil || conn.Flush() != nil {
		return false
	}
	var pinging sync.WaitGroup
	defer pinging.Wait()
	stop, stopPinging := context.WithCancel(ctx)
	defer stopPinging()
	pinging.Go(func() { ping(stop, conn) })
	for {
		reply, err := redis.ReceiveWithTimeout(conn, 3*pingInterval)
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
			l.set(conn, true)
			l.hub.alarm()
		case "message":
			payload, _ := parts[2].([]byte)
			l.hub.deliver(string(payload))
		}
	}
}

// ping makes the server say something now and then, so that a dead connection is noticed.
func ping(ctx context.Context, conn redis.Conn) {
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if conn.Send("PING") != nil || conn.Flush() != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
