package server

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Session is for commands of any kind, all of them together within one bound. Each step has a connection of its own.
type Session struct {
	server *Server
	ctx    context.Context
	lock   Lock
	start  time.Time
	err    error // why nothing more can be done
}

// session begins a Session with a server that serves key.
func (s *Server) session(ctx context.Context, timeout time.Duration, key string) *Session {
	return &Session{server: s, ctx: ctx, lock: Lock{Key: key, Terms: &Terms{Timeout: timeout}}, start: time.Now()}
}

// Run has f look at the server that serves key. f runs on the caller's goroutine; what it asks for ends when timeout or
// ctx does. It does not run if there is no connection.
func (s *Server) Run(ctx context.Context, timeout time.Duration, key string, f func(*Session) error) error {
	ses := s.session(ctx, timeout, key)
	if _, err := ses.step(nil); err != nil {
		return err
	}
	return f(ses)
}

// Do runs one command at the server that serves key, within timeout. It goes again to where the slot of the key has
// moved to; an error of the server is an error.
func (s *Server) Do(ctx context.Context, timeout time.Duration, key, command string, args ...any) (any, error) {
	return s.session(ctx, timeout, key).Do(command, args...)
}

// Pinned reports whether the server is the node of a cluster that serves the keys of one slot.
func (s *Session) Pinned() bool { return s.server.nodes.cluster.Load() }

// Do runs one command. An error of the server is an error.
func (s *Session) Do(cmd string, args ...any) (any, error) {
	replies, err := s.Pipeline([][]any{append([]any{cmd}, args...)})
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
	return s.step(cmds)
}

func (s *Session) step(cmds [][]any) ([]any, error) {
	var replies []any
	op := s.server.begin(s.ctx, &s.lock, s.start, 0)
	reply := s.server.bounded(op, question(func(ses *session) (err error) {
		replies, err = ses.all(cmds)
		return err
	}))
	if reply.Verdict != Done {
		s.err = reply.Err
		return nil, s.err // a goroutine that was left behind may still write the replies
	}
	return replies, nil
}

// all runs commands. Errors of the server stand in the replies.
func (ses *session) all(cmds [][]any) ([]any, error) {
	replies := make([]any, len(cmds))
	if !ses.pinned {
		lay := func(i int) (string, []any) { return cmds[i][0].(string), cmds[i][1:] }
		return replies, ses.pipeline(len(cmds), lay, func(i int, reply any) { replies[i] = reply })
	}
	for i, c := range cmds { // only a command that goes alone is repeated where its slot has moved to
		reply, err := ses.do(c[0].(string), c[1:]...)
		if ses.follow(err) {
			reply, err = ses.do(c[0].(string), c[1:]...)
		}
		var said redis.Error
		switch {
		case errors.As(err, &said):
			reply = err
		case err != nil:
			return nil, err
		}
		replies[i] = reply
	}
	return replies, nil
}

// NobodyListens reports whether the server to which the pool leads now counts no one who listens on channel, so that it would
// hand no lock over there. Where that can't be known it reports false: a cluster counts the listeners of one node.
//
// It asks as a hand-off does, by a message, which is empty: that needs no other permission.
func (s *Server) NobodyListens(ctx context.Context, channel string, timeout time.Duration) bool {
	nobody := false
	err := s.Run(ctx, timeout, channel, func(ses *Session) error {
		if ses.Pinned() {
			return nil
		}
		heard, err := redis.Int(ses.Do("PUBLISH", channel, ""))
		nobody = err == nil && heard == 0
		return err
	})
	return err == nil && nobody
}
