package server

import (
	"context"
	"time"
)

// Raise lifts the fence counters of a lock to fence where they are lower, within d.
func (s *Server) Raise(ctx context.Context, l *Lock, fence int64, d time.Duration) Reply {
	op := s.begin(ctx, l, time.Time{}, d-l.Timeout)
	op.due, op.fresh = op.end, s.wasSilent(l.Key)
	return s.bounded(op, raising{l, fence})
}

type raising struct {
	lock  *Lock
	fence int64
}

func (r raising) do(op *operation) Reply {
	ses, err := op.open(op.key)
	if err != nil {
		return Reply{Err: err}
	}
	err = ses.steady(func() error {
		_, err := ses.run(op.args.raise(r.lock, r.fence))
		return err
	})
	ses.close()
	if err != nil {
		return Reply{Err: err, Sent: ses.sent}
	}
	return Reply{Verdict: Done, Sent: ses.sent}
}

func (raising) skip(*operation, Reply) {}
