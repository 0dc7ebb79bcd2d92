package punctual

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// A socket is the network connection below redigo, and below TLS where there is some. It keeps the deadlines that redigo
// sets, from the options of the dial, unless the bound of the operation under way comes first. And it can be interrupted,
// which is for good.
type socket struct {
	net.Conn

	onEnd func() // of the operation under way, or nil: see giveUp. It belongs to the goroutine that reads

	mu      sync.Mutex // protects what follows, and orders the setting of deadlines
	ended   bool       // nothing is read any more, and nothing written, but within maxGrace
	lingers bool       // maxGrace has begun

	// Of the operation under way.
	bound  time.Time       // its deadline, which both directions have; zero: none
	stale  bool            // that of the last one still stands for writing
	active <-chan struct{} // the Done of its ctx; nil: none

	// A registration with a ctx costs more than all the rest together. So it stays for the operations to come, until
	// one has another ctx, and does nothing between them.
	watched   <-chan struct{} // the Done of the ctx; nil: none
	unwatched func() bool     // ends the registration
}

// maxGrace bounds what is written after the end: a command to undo the one that was cut short, and the
// goodbye of TLS. No caller waits for room: they are small, and only a peer that takes nothing has none left.
const maxGrace = 5 * time.Millisecond

// past is a deadline that makes everything return at once.
var past = time.Unix(1, 0)

// SetReadDeadline is for redigo. Where the bound comes first, that stands.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bounds(t) {
		return nil
	}
	return s.Conn.SetReadDeadline(t)
}

// SetWriteDeadline is SetReadDeadline for writing.
func (s *socket) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bounds(t) {
		return nil
	}
	s.stale = false
	return s.Conn.SetWriteDeadline(t)
}

// SetDeadline is both.
func (s *socket) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// bounds reports whether the connection, or the operation under way, ends before t. The caller holds s.mu.
func (s *socket) bounds(t time.Time) bool {
	return s.ended || !s.bound.IsZero() && (t.IsZero() || t.After(s.bound))
}

// Read reads until the deadline. When that has passed, the connection has ended.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if err == nil || n > 0 {
		return n, err
	}
	var timeout net.Error // escapes
	if errors.As(err, &timeout) && timeout.Timeout() {
		s.giveUp()
	}
	return n, err
}

// Write writes all of p before the deadline, or the connection has ended.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	if s.stale && !s.bounds(time.Time{}) { // redigo need not have a timeout for writing
		s.stale = false
		s.Conn.SetWriteDeadline(time.Time{}) //nolint:errcheck // then the writing fails
	}
	s.mu.Unlock()
	n, err := s.Conn.Write(p)
	if err != nil {
		s.interrupt()
	}
	return n, err
}

// begin has what is read and written from now on end with ctx, and at deadline, if that is not zero.
func (s *socket) begin(ctx context.Context, deadline time.Time) {
	done := ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound, s.active = deadline, done
	if !s.ended && !deadline.IsZero() {
		s.stale = true
		s.Conn.SetDeadline(deadline) //nolint:errcheck // then the writing fails
	}
	if done == nil || done == s.watched {
		return
	}
	s.forget()
	if caller, ok := ctx.Value(Caller).(context.Context); ok {
		ctx = caller
	}
	s.watched, s.unwatched = done, context.AfterFunc(ctx, func() { s.cancelled(done) })
}

// finish is for when the operation is over. A cancellation that comes later does nothing.
func (s *socket) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound, s.active = time.Time{}, nil
}

// cancelled ends the connection if an operation is under way whose ctx has ended.
func (s *socket) cancelled(done <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched == done { // an operation that has just found it alive registers anew, and is cut short at once
		s.watched, s.unwatched = nil, nil
	}
	if s.active == done {
		s.cut()
	}
}

// forget ends the registration, if there is one. The caller holds s.mu.
func (s *socket) forget() {
	if s.watched != nil {
		s.unwatched()
		s.watched, s.unwatched = nil, nil
	}
}

// interrupt ends the connection: the goroutine that reads or writes returns at once. It may be called from any goroutine.
func (s *socket) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut()
}

// cut is interrupt for a caller that holds s.mu.
func (s *socket) cut() {
	if s.ended {
		return
	}
	s.ended = true
	if s.Conn.SetDeadline(past) != nil {
		s.Conn.Close() // it knows no deadlines
	}
}

// linger ends the connection as well, but for what is written within a moment.
func (s *socket) linger() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	s.ended = true
	if !s.lingers {
		s.lingers = true
		s.Conn.SetWriteDeadline(time.Now().Add(maxGrace)) //nolint:errcheck // then it stays as it was, which is the end of it
	}
}

// giveUp is what a reader does when its time is over, before redigo or TLS hear of it: up to there they can
// still write. It runs on the goroutine of the operation, whose command has been written completely.
func (s *socket) giveUp() {
	s.linger()
	if f := s.onEnd; f != nil {
		s.onEnd = nil
		f()
	}
}

// Close closes the connection. TLS that is above the system's connection is not asked for its goodbye, which takes up
// to 5 s if the peer reads nothing.
func (s *socket) Close() error {
	if secure, ok := s.Conn.(interface{ NetConn() net.Conn }); ok {
		secure.NetConn().Close()
	}
	return s.Conn.Close()
}

func (s *socket) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}
