package server

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Session is a connection for commands of any kind, all of them together within one bound.
type Session struct {
	server *Server
	ctx    context.Context
	lock   Lock
	start  time.Time
	held   *holding // nil: there is no connection any more
	pinned bool
	err    error // why nothing more can be done
}

// A holding is the connection of a Session, which belongs to the operation that uses it until that has ended in time.
type holding struct {
	conn        redis.Conn // nil: not checked out
	pinned, bad bool
}

// Run has f look at the server over a connection that serves key. f runs on the caller's goroutine; what it asks for
// ends when timeout or ctx does.
func (s *Server) Run(ctx context.Context, timeout time.Duration, key string, f func(*Session) error) error {
	ses := &Session{server: s, ctx: ctx, lock: Lock{Key: key, Terms: &Terms{Timeout: timeout}}, start: time.Now(), held: new(holding)}
	if _, err := ses.step(nil, false); err != nil {
		return err
	}
	defer func() {
		if ses.held != nil && ses.held.conn != nil {
			// The reply to its last command has come, so this takes no time; but for that there need be none left.
			ses.ctx, ses.lock.Terms, ses.start = context.WithoutCancel(ctx), &Terms{Timeout: max(timeout, time.Second)}, time.Now()
			if _, err := ses.step(nil, true); err != nil && ses.held != nil {
				go ses.held.conn.Close() // too many operations are stuck on this server
			}
		}
	}()
	return f(ses)
}

// Do runs one command over a connection that serves key, within timeout. It goes again to where the slot of the key has
// moved to; an error of the server is an error.
func (s *Server) Do(ctx context.Context, timeout time.Duration, key, command string, args ...any) (any, error) {
	ses := &Session{server: s, ctx: ctx, lock: Lock{Key: key, Terms: &Terms{Timeout: timeout}}, start: time.Now(), held: new(holding)}
	replies, err := ses.step([][]any{append([]any{command}, args...)}, true)
	return only(replies, err)
}

// Pinned reports whether the connection is for the keys of one slot of a cluster.
func (s *Session) Pinned() bool { return s.pinned }

// Do runs one command. An error of the server is an error.
func (s *Session) Do(cmd string, args ...any) (any, error) {
	return only(s.Pipeline([][]any{append([]any{cmd}, args...)}))
}

// only is the reply to a single command.
func only(replies []any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if refused, ok := replies[0].(error); ok {
		return nil, refused
	}
	return replies[0], nil
}

// Pipeline runs commands in one round trip. Errors of the server stand in the replies; an error of the connection is
// returned, and ends the Session.
func (s *Session) Pipeline(cmds [][]any) ([]any, error) {
	if s.err != nil || len(cmds) == 0 {
		return nil, s.err
	}
	return s.step(cmds, false)
}

// step is one operation of a Session.
func (s *Session) step(cmds [][]any, last bool) ([]any, error) {
	a := &stepping{cmds: cmds, last: last, held: s.held}
	op := s.server.begin(s.ctx, &s.lock, s.start, 0)
	op.fresh = s.server.wasSilent(s.lock.Key)
	reply := s.server.bounded(op, a)
	if reply.Verdict != Done {
		s.err = reply.Err
		if !a.unbegun {
			s.held = nil // it may still be in use
		}
		return nil, s.err
	}
	s.pinned = s.held.pinned
	return a.replies, nil
}

type stepping struct {
	cmds    [][]any
	last    bool
	held    *holding
	replies []any // there when it is Done
	unbegun bool  // no process has touched the connection, nor will
}

func (a *stepping) do(op *operation) Reply {
	ses := &op.session
	if a.held.conn == nil {
		if _, err := op.open(op.key); err != nil {
			return Reply{Err: err}
		}
	} else {
		*ses = session{op: op, key: op.key, fresh: op.fresh, conn: a.held.conn, pinned: a.held.pinned, bad: a.held.bad}
	}
	err := ses.steady(func() error { return a.run(ses) })
	if err != nil || a.last {
		ses.close()
	}
	*a.held = holding{ses.conn, ses.pinned, ses.bad}
	if err != nil {
		return Reply{Err: err}
	}
	return Reply{Verdict: Done}
}

func (a *stepping) run(ses *session) error {
	a.replies = make([]any, len(a.cmds))
	if !ses.pinned {
		lay := func(i int) (string, []any) { return a.cmds[i][0].(string), a.cmds[i][1:] }
		return ses.pipeline(len(a.cmds), lay, func(i int, reply any) { a.replies[i] = reply })
	}
	for i, c := range a.cmds { // only a command that goes alone is repeated where its slot has moved to
		reply, err := ses.do(c[0].(string), c[1:]...)
		if ses.follow(err) {
			reply, err = ses.do(c[0].(string), c[1:]...)
		}
		var said redis.Error
		switch {
		case errors.As(err, &said):
			reply = err
		case err != nil:
			return err
		}
		a.replies[i] = reply
	}
	return nil
}

func (a *stepping) skip(*operation, Reply) { a.unbegun = true }
