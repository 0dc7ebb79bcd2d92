package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Run gives f a connection, bound to the node that serves key where the pool is a cluster.
func (s *Server) Run(ctx context.Context, timeout time.Duration, key string, f func(*Session) error) error {
	deadline := time.Now().Add(timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	done := make(chan error, 1)
	go func() {
		ses, err := s.open(deadline, key)
		if err != nil {
			done <- err
			return
		}
		defer ses.close()
		done <- f(&Session{ses})
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A Session is a connection for the time of one Run.
type Session struct{ s session }

// Do runs one command.
func (s *Session) Do(command string, args ...any) (any, error) { return s.s.do(command, args...) }

// Pinned reports whether the connection is for the slot of one key.
func (s *Session) Pinned() bool { return s.s.pinned }

// Pipeline runs commands in one round trip. Errors of the server stand in the replies.
func (s *Session) Pipeline(commands [][]any) ([]any, error) {
	replies := make([]any, len(commands))
	if !s.s.pinned {
		for _, c := range commands {
			if err := s.s.conn.Send(c[0].(string), c[1:]...); err != nil {
				return nil, normalize(err)
			}
		}
		if err := s.s.conn.Flush(); err != nil {
			return nil, normalize(err)
		}
	}
	for i, c := range commands {
		var reply any
		var err error
		if s.s.pinned {
			reply, err = s.s.do(c[0].(string), c[1:]...)
		} else {
			reply, err = s.s.receive(max(time.Until(s.s.deadline), time.Microsecond))
		}
		var refused redis.Error
		switch {
		case err == nil:
			replies[i] = reply
		case errors.As(err, &refused):
			replies[i] = refused
		default:
			return nil, err
		}
	}
	return replies, nil
}

// Reserved reports whether the key is one that locks have beside them.
func Reserved(key string) bool {
	for _, suffix := range []string{"fence", "queue"} {
		var of []string // whose it might be, see Sibling
		if head, ok := strings.CutSuffix(key, ":"+suffix); ok {
			of = append(of, head, strings.TrimSuffix(strings.TrimPrefix(head, "{"), "}"))
		}
		if head, ok := strings.CutSuffix(key, ":"+suffix+"."); ok {
			of = append(of, head)
		}
		if _, rest, ok := strings.Cut(key, "}:"+suffix+":"); ok {
			of = append(of, strings.TrimSuffix(rest, "."))
		}
		if slices.ContainsFunc(of, func(k string) bool { return Sibling(k, suffix) == key }) {
			return true
		}
	}
	return strings.HasPrefix(key, "redimutex:")
}
