package mux

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

var errCluster = errors.New("connections of a cluster can't be shared: they go to a different server for each key")

// Clustered reports whether source is the pool of a cluster.
func Clustered(source Source) bool {
	_, ok := source.(interface {
		EachNode(bool, func(string, redis.Conn) error) error
	})
	return ok
}

// dialler returns how to make a connection, and whether that is one that source lends, rather than one
// of our own, which does not count against the limit of source.
func dialler(source Source) (dial func(context.Context) (redis.Conn, error), lent bool) {
	if p, ok := source.(*redis.Pool); ok {
		if p.DialContext != nil {
			return p.DialContext, false
		}
		if p.Dial != nil {
			return func(context.Context) (redis.Conn, error) { return p.Dial() }, false
		}
	}
	if p, ok := source.(interface {
		GetContext(context.Context) (redis.Conn, error)
	}); ok {
		return p.GetContext, true
	}
	return func(context.Context) (redis.Conn, error) {
		c := source.Get()
		if err := c.Err(); err != nil {
			c.Close()
			return nil, err
		}
		return c, nil
	}, true
}

// connect makes a connection that may be closed while others write and read, as those that redigo dials
// may be. One that a pool lends may not, and gets a minder.
func connect(ctx context.Context, source Source) (redis.Conn, error) {
	dial, lent := dialler(source)
	c, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := c.(interface{ Bind(...string) error }); ok {
		c.Close()
		return nil, errCluster
	}
	if lent {
		return &minded{Conn: c, work: make(chan struct{}, 1)}, nil
	}
	return c, nil
}

// A minded connection is given back to its pool only when nobody uses it any more, because pools
// don't expect anything else, and without replies that are still to come, which would be taken for
// those of the next user.
type minded struct {
	redis.Conn
	work chan struct{} // a reply has to be expected, or the end

	mu     sync.Mutex
	owed   int // replies
	inside int // goroutines that use it
	closed bool
	broken bool
}

// maxSilence is how long a borrowed connection may owe a reply before it is given up.
const maxSilence = 5 * time.Second

var errGivenBack = errors.New("the connection was given back")

func (m *minded) enter(owed int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.owed += owed
	m.inside++
	return true
}

// leave gives the connection back if it was only waiting for that.
func (m *minded) leave(err error) {
	m.mu.Lock()
	m.inside--
	m.broken = m.broken || err != nil
	last := m.closed && m.inside == 0
	m.mu.Unlock()
	if last {
		m.giveBack()
	}
}

func (m *minded) Send(name string, args ...any) error {
	if !m.enter(1) {
		return errGivenBack
	}
	err := m.Conn.Send(name, args...)
	m.leave(err)
	return err
}

func (m *minded) Flush() error {
	if !m.enter(0) {
		return errGivenBack
	}
	err := m.Conn.Flush()
	m.leave(err)
	select {
	case m.work <- struct{}{}:
	default:
	}
	return err
}

// Receive reads only when a reply is owed, so that there can be a limit to how long that takes.
func (m *minded) Receive() (any, error) {
	for {
		m.mu.Lock()
		owed, closed := m.owed, m.closed
		if owed > 0 && !closed {
			m.inside++
		}
		m.mu.Unlock()
		switch {
		case closed:
			return nil, errGivenBack
		case owed > 0:
			reply, err := m.read()
			if fatal(err) {
				m.leave(err)
			} else {
				m.leave(nil)
			}
			return reply, err
		}
		<-m.work
	}
}

func (m *minded) read() (any, error) {
	reply, err := redis.ReceiveWithTimeout(m.Conn, maxSilence)
	if err == errNoTimeout { //nolint:errorlint // the very value; nothing was read
		reply, err = m.Conn.Receive()
	}
	m.mu.Lock()
	m.owed--
	m.mu.Unlock()
	return reply, err
}

// errNoTimeout is redigo's answer of a connection that can't do ReceiveWithTimeout. redigo does not
// export it, so we ask once.
var _, errNoTimeout = redis.ReceiveWithTimeout(struct{ redis.Conn }{}, 0)

// Close has the connection given back when the last user has left it.
func (m *minded) Close() error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	last := m.inside == 0
	m.mu.Unlock()
	select {
	case m.work <- struct{}{}:
	default:
	}
	if first && last {
		m.giveBack()
	}
	return nil
}

// giveBack reads what is still owed first. It can be called only when nobody else is inside.
func (m *minded) giveBack() {
	if !m.broken && m.Conn.Flush() == nil {
		for m.owed > 0 {
			if _, err := m.read(); fatal(err) {
				break
			}
		}
	}
	m.Conn.Close()
}

// fatal reports whether err has broken a connection, rather than being the word of the server.
func fatal(err error) bool {
	if err == nil {
		return false
	}
	var refused redis.Error
	return !errors.As(err, &refused)
}
