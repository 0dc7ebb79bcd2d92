package punctual

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// A socket is the network connection below redigo, and below TLS where there is some. It keeps two kinds of
// deadlines: those that redigo sets, from the options of the dial, and the bound of the operation under way.
// And it can be interrupted, which is for good.
//
// Deadlines reach the system late: one that stands and is too early costs nothing until it passes, when it is
// set to what is wanted and the reading or writing goes on. So a command that is answered in time sets none. That
// holds for connections of the system. Others, such as TLS that a function of the user has dialled, may be broken for
// good by a deadline that passes; they are told each deadline at once.
type socket struct {
	net.Conn
	exact bool // deadlines reach the connection at once

	onEnd func() // of the operation under way, or nil: see giveUp. It belongs to the goroutine that reads

	mu    sync.Mutex // protects what follows, and orders the setting of deadlines
	read  deadline
	write deadline
	ended bool      // nothing is read any more, and nothing written after grace
	grace time.Time // zero: over at once

	// Of the operation under way.
	bound  time.Time       // its deadline; zero: none
	active <-chan struct{} // the Done of its ctx; nil: none

	// A registration with a ctx costs more than all the rest together. So it stays for the operations to come, until
	// one has another ctx, and does nothing between them.
	watched   <-chan struct{} // the Done of the ctx; nil: none
	unwatched func() bool     // ends the registration
}

// A deadline is that of one direction. Zero times are no limit.
type deadline struct {
	want time.Time // what redigo or TLS have asked for
	set  time.Time // what the system has
}

const (
	// maxGrace bounds what is written after the end: a command to undo the one that was cut short, and the
	// goodbye of TLS. No caller waits for room: they are small, and only a peer that takes nothing has none left.
	maxGrace = 5 * time.Millisecond
)

func newSocket(c net.Conn) *socket {
	_, system := c.(syscall.Conn)
	return &socket{Conn: c, exact: !system}
}

// past is a deadline that makes everything return at once.
var past = time.Unix(1, 0)

// SetReadDeadline notes what redigo wants. It never fails, and takes effect with the next Read.
func (s *socket) SetReadDeadline(t time.Time) error { return s.wants(t, &s.read) }

// SetWriteDeadline is SetReadDeadline for the next Write.
func (s *socket) SetWriteDeadline(t time.Time) error { return s.wants(t, &s.write) }

// SetDeadline is both.
func (s *socket) SetDeadline(t time.Time) error { return s.wants(t, &s.read, &s.write) }

func (s *socket) wants(t time.Time, directions ...*deadline) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range directions {
		d.want = t
	}
	return nil
}

// Read reads until the deadline. When that has passed, the connection has ended.
func (s *socket) Read(p []byte) (int, error) {
	if err := s.prepare(&s.read); err != nil {
		return 0, err
	}
	for {
		n, err := s.Conn.Read(p)
		if n > 0 || !passed(err) {
			return n, err
		}
		if !s.again(&s.read) {
			s.giveUp()
			return 0, err
		}
	}
}

// Write writes all of p before the deadline, or the connection has ended.
func (s *socket) Write(p []byte) (n int, err error) {
	if err := s.prepare(&s.write); err != nil {
		return 0, err
	}
	for {
		m, err := s.Conn.Write(p[n:])
		n += m
		if err == nil || !passed(err) {
			return n, err
		}
		if !s.again(&s.write) {
			s.interrupt()
			return n, err
		}
	}
}

// passed reports whether err is that a deadline has passed. A timeout of the system's own is the end.
func passed(err error) bool {
	var timeout net.Error
	var system syscall.Errno
	return errors.As(err, &timeout) && timeout.Timeout() && !errors.As(err, &system)
}

// prepare sets the deadline of a direction if the one that stands comes too late.
func (s *socket) prepare(d *deadline) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.end(d)
	if s.exact && d.set.Equal(end) || !s.exact && (end.IsZero() || !d.set.IsZero() && !d.set.After(end)) {
		return nil
	}
	return s.apply(d, end)
}

// again is for a deadline that has passed. It sets the one that is wanted now, or reports that this has passed
// as well.
func (s *socket) again(d *deadline) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.end(d)
	if !end.IsZero() && !time.Now().Before(end) {
		return false
	}
	return s.apply(d, end) == nil
}

// end returns the deadline that counts. The caller holds s.mu.
func (s *socket) end(d *deadline) time.Time {
	switch {
	case s.ended && d == &s.write && !s.grace.IsZero():
		return s.grace
	case s.ended:
		return past
	case d.want.IsZero() || !s.bound.IsZero() && s.bound.Before(d.want):
		return s.bound
	}
	return d.want
}

// apply sets a deadline at the system. The caller holds s.mu.
func (s *socket) apply(d *deadline, t time.Time) error {
	d.set = t
	if d == &s.read {
		return s.Conn.SetReadDeadline(t)
	}
	return s.Conn.SetWriteDeadline(t)
}

// begin has what is read and written from now on end with ctx, and at deadline, if that is not zero.
func (s *socket) begin(ctx context.Context, deadline time.Time) {
	done := ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound, s.active = deadline, done
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
	s.read.set, s.write.set = past, past
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
	if s.grace.IsZero() {
		s.grace = time.Now().Add(maxGrace)
		s.apply(&s.write, s.grace) //nolint:errcheck // then it stays as it was, which is the end of it
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
