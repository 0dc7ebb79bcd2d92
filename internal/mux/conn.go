package mux

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/punctual"
)

// This file is what an operation sees of a link. All goes through DoContext: a command, or a batch of them.

var _ redis.Conn = (*link)(nil)

var errDemoted = errors.New("the server has become a replica")

// Err returns why the connection can't be used any more, or nil.
func (l *link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close gives the connection back.
func (l *link) Close() error {
	if l.alone {
		l.end(errClosed)
	}
	return nil
}

// Discard has the shared connection dialled anew, because it leads to a server that has become a replica.
func (l *link) Discard() {
	if time.Since(l.born) > minLife {
		l.end(errDemoted)
	}
}

// Do is not supported: what is sent has to have a deadline.
func (*link) Do(string, ...any) (any, error) { return nil, errors.ErrUnsupported }

// Send is not supported either.
func (*link) Send(string, ...any) error { return errors.ErrUnsupported }

// Flush is not supported either.
func (*link) Flush() error { return errors.ErrUnsupported }

// Receive is not supported either.
func (*link) Receive() (any, error) { return nil, errors.ErrUnsupported }

// DoContext sends a command and returns its reply. It waits no longer than ctx lasts, which must have a deadline. Then the
// [punctual.Undo] of ctx, a command with its arguments, is written behind the command on the same connection: whenever the
// server gets to executing the first, it executes the second next. If the command is still waiting to be written, it never
// is. Without a command it is for a [punctual.Batch], in whose replies errors of the server stand.
func (l *link) DoContext(ctx context.Context, name string, args ...any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k := l.pool.newCall()
	if name != "" {
		k.add(name, args...) //nolint:errcheck // never fails
	} else if err := punctual.SendBatch(ctx, k.add); err != nil || len(k.commands) == 0 {
		return []any{}, err
	}
	k.undo, _ = ctx.Value(punctual.Undo).([]any)
	k.deadline, _ = ctx.Deadline()
	if err := l.do(ctx, k); err != nil {
		k.timer.Stop()
		return nil, err
	}
	if name == "" {
		replies := k.replies
		k.replies = nil
		l.pool.free(k)
		return replies, nil
	}
	reply := k.replies[0]
	l.pool.free(k)
	if refused, ok := reply.(redis.Error); ok {
		return nil, refused
	}
	return reply, nil
}
