package server

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// InUse asks how many permits of a semaphore are in use. The number counts if the Verdict is Done.
func (s *Server) InUse(ctx context.Context, l *Lock) (int, Reply) {
	op := s.begin(ctx, l, time.Time{}, 0)
	op.fresh = s.wasSilent(l.Key)
	c := &counting{lock: l}
	reply := s.bounded(op, c)
	if reply.Verdict != Done {
		return 0, reply // c may still be written
	}
	return c.permits, reply
}

type counting struct {
	lock    *Lock
	permits int
}

func (c *counting) do(op *operation) Reply {
	ses, err := op.open(op.key)
	if err != nil {
		return Reply{Err: err}
	}
	err = ses.steady(func() (err error) {
		c.permits, err = redis.Int(ses.run(op.args.inUse(c.lock)))
		return err
	})
	ses.close()
	if err != nil {
		return Reply{Err: err}
	}
	return Reply{Verdict: Done}
}

func (*counting) skip(*operation, Reply) {}
