package server

import (
	"context"
	"time"
)

// Raise lifts the fence counter of a lock to fence, if it is lower. ttl is that of the lock.
func (s *Server) Raise(ctx context.Context, l Lock, fence int64, ttl time.Duration) Reply {
	op := s.begin(ctx, &l, time.Time{}, 0)
	op.raise = raise{l.Key, fence, ttl}
	op.fresh = s.wasSilent(l.Key)
	return s.bounded(op, raising{})
}

type raise struct {
	key   string
	fence int64
	ttl   time.Duration
}

type raising struct{}

func (raising) do(op *operation) Reply {
	r := &op.raise
	ses, err := op.open(r.key)
	if err != nil {
		return Reply{Err: err}
	}
	err = ses.steady(func() error {
		_, err := ses.run(raiseScript, []any{nil, 1, FenceKey(r.key), r.fence, counterFor(r.ttl)})
		return err
	})
	ses.close()
	if err != nil {
		return Reply{Err: err, Sent: ses.sent}
	}
	return Reply{Verdict: Done, Sent: ses.sent}
}

func (raising) abandon(_ *operation, err error, _ bool) Reply { return Reply{Err: err} }
func (raising) late(*operation)                               {}
