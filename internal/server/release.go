package server

import (
	"context"
	"fmt"
	"time"
)

// Release gives the lock back. If the server does not answer, or ctx ends first, the release goes on in the
// background for as long as the key may live.
func (s *Server) Release(ctx context.Context, r Release) Reply {
	op := s.begin(ctx, &r.Lock, r.Start, 0)
	op.release = r
	if r.Next != nil {
		op.next = *r.Next
		op.release.Next = &op.next
	}
	return s.bounded(op, releasing{})
}

type releasing struct{}

func (releasing) do(op *operation) Reply {
	r := &op.release
	ses, err := op.open(r.Key)
	if err != nil {
		return Reply{Err: err, Undoing: op.server.later(r)}
	}
	op.sending()
	script, args := op.args.release(r, ses.pinned)
	raw, err := ses.run(script, args)
	reply := parseEnd(raw, err, ses.sent)
	if err != nil && !Permanent(err) {
		reply.Undoing = op.server.later(r)
	}
	ses.close()
	return reply
}

func (releasing) abandon(op *operation, err error, mayRun bool) Reply {
	reply := Reply{Err: err, Undoing: op.server.later(&op.release)}
	if mayRun {
		reply.Sent, reply.Open = op.start, op.due
	}
	return reply
}

func (releasing) late(*operation) {}

// parseEnd reads the reply of release.lua, release_queued.lua and extend.lua.
func parseEnd(raw any, err error, sent time.Time) Reply {
	if e, ok := raw.(error); ok {
		err = e
	}
	if err != nil {
		return Reply{Err: err, Sent: sent}
	}
	switch v, ok := raw.(int64); {
	case !ok:
		return Reply{Err: fmt.Errorf("unexpected reply %T to a script", raw), Sent: sent}
	case v == 1:
		return Reply{Verdict: Done, Sent: sent}
	case v > 1: // with somebody who queues
		return Reply{Verdict: Done, Sent: sent, Arrived: v, Now: v}
	case v == 0:
		return Reply{Verdict: Missing, Sent: sent}
	case v == -1:
		return Reply{Verdict: Taken, Sent: sent}
	}
	return Reply{Err: errLate, Sent: sent}
}
