package server

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A question is an action that leaves nothing behind that would have to be released.
type question func(ses *session) error

func (q question) ask(ses *session) Reply {
	if err := q(ses); err != nil {
		return Reply{Err: err, Sent: ses.sent}
	}
	return Reply{Verdict: Done, Sent: ses.sent}
}

func (question) took(*operation, *Reply) {}

// Raise lifts the fence counters of a lock to fence where they are lower, within d.
func (s *Server) Raise(ctx context.Context, l *Lock, fence int64, d time.Duration) Reply {
	op := s.begin(ctx, l, time.Time{}, d-l.Timeout)
	return s.bounded(op, question(func(ses *session) error {
		_, err := ses.run(op.args.raise(l, fence))
		return err
	}))
}

// InUse asks how many permits of a semaphore are in use. The number counts if the Verdict is Done.
func (s *Server) InUse(ctx context.Context, l *Lock) (int, Reply) {
	var permits int
	op := s.begin(ctx, l, time.Time{}, 0)
	reply := s.bounded(op, question(func(ses *session) (err error) {
		permits, err = redis.Int(ses.run(op.args.inUse(l)))
		return err
	}))
	if reply.Verdict != Done {
		return 0, reply // a goroutine that was left behind may still write it
	}
	return permits, reply
}
