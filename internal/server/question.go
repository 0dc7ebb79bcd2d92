package server

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

// Raise raises the fence counters of a lock to fence, if they are lower, within d.
func (s *Server) Raise(ctx context.Context, l *Lock, fence int64, d time.Duration) Reply {
	op := s.begin(ctx, raise, &Claim{Lock: *l}, time.Now(), d-l.Timeout)
	op.fence = fence
	return op.do()
}

func (s *Server) InUse(ctx context.Context, l Lock) Reply {
	return s.begin(ctx, inUse, &Claim{Lock: l}, time.Now(), 0).do()
}

// A Session runs commands of any kind. One bound holds for all of them together. Each step has a connection of its own.
type Session struct {
	server *Server
	ctx    context.Context
	claim  Claim // of no lock: only its key and timeout are used
	start  time.Time
	fresh  bool  // it dials its connections, if it can
	err    error // why it has ended
}

// Session begins a Session with the server that serves key. It ends after timeout, or with ctx.
func (s *Server) Session(ctx context.Context, timeout time.Duration, key string) *Session {
	return &Session{server: s, ctx: ctx, claim: Claim{Lock: Lock{Key: key, Terms: &Terms{Timeout: timeout}, Extras: NoExtras}}, start: time.Now()}
}

// Do runs one command, and repeats it where the slot of the key has moved to. An error of the server is returned as an error.
func (s *Session) Do(cmd string, args ...any) (any, error) {
	replies, err := s.Pipeline([][]any{append([]any{cmd}, args...)})
	if err != nil {
		return nil, err
	}
	err, _ = replies[0].(error)
	return replies[0], err
}

// Pipeline runs commands in one round trip. Errors of the server are among the replies. An error of the connection is
// returned, and ends the Session.
func (s *Session) Pipeline(cmds [][]any) ([]any, error) {
	if s.err != nil {
		return nil, s.err
	}
	var replies []any
	op := s.server.begin(s.ctx, session, &s.claim, s.start, 0)
	op.aside, op.ask = true, func(op *operation) (err error) {
		replies, err = op.commands(cmds)
		return err
	}
	if s.fresh {
		op.freshen()
	}
	if reply := op.do(); reply.Verdict != Done {
		s.err = reply.Err
		return nil, s.err // an abandoned goroutine may still write the replies
	}
	return replies, nil
}

func (op *operation) commands(cmds [][]any) ([]any, error) {
	if !op.pinned {
		lay := func(i int) (string, []any) { return cmds[i][0].(string), cmds[i][1:] }
		if replies, err := op.pipeline(len(cmds), lay); !errors.Is(err, conn.ErrNoSend) {
			return replies, err
		}
	}
	replies := make([]any, len(cmds))
	for i, c := range cmds { // only a command that is sent alone is repeated on another node
		reply, err := op.command(c[0].(string), c[1:]...)
		for n := 0; err != nil && op.follow(err, n); n++ {
			reply, err = op.command(c[0].(string), c[1:]...)
		}
		if code, _ := said(err); code != "" {
			reply = err
		} else if err != nil {
			return nil, err
		}
		replies[i] = reply
	}
	return replies, nil
}

// Echo publishes an empty message to channel on the server that serves key, as a hand-off does: so it needs no other
// permission. echoed: the server has taken the message. unheard: the server counts no listener, so a hand-off would find no
// waiter; in a cluster it is false, because a node counts only its own listeners. Echo is an operation on the name of the
// queue, not on key: if it has no answer, the operations of the lock need not dial. If a replica has answered since the last
// Echo, other connections of the pool may lead there, so Echo goes over a fresh one.
func (s *Server) Echo(ctx context.Context, key, channel string, timeout time.Duration) (echoed, unheard bool) {
	ses := s.Session(ctx, timeout, QueueKey(key))
	ses.fresh = s.demoted.Swap(false)
	heard, err := redis.Int(ses.Do("PUBLISH", channel, ""))
	return err == nil, err == nil && heard == 0 && !s.nodes.cluster.Load()
}
