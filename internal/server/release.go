package server

import (
	"context"
	"fmt"
	"time"
)

// Release gives the lock back. If
// the server does not answer, or ctx ends first, it goes on in the background for as long as the key may live.
func (s *Server) Release(ctx context.Context, r Release) Reply {
	op := s.begin(ctx, &r.Lock, r.Start, 0)
	op.release = r
	op.fresh = s.wasSilent(r.Key)
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
	var reply, first Reply
	ses.steady(func() error { //nolint:errcheck // it stands in the reply
		first, reply = reply, ses.release(r)
		return reply.Err
	})
	switch {
	case ses.redials == 0 || reply.Verdict != Missing && reply.Verdict != Taken:
	case r.Next != nil:
		reply = first // the place that it has queued, if it was executed, is not known
	default:
		reply.Verdict = Done // the command over the connection that broke may have released it
	}
	if reply.Verdict == Failed && !Permanent(reply.Err) {
		reply.Undoing = op.server.later(r)
	}
	ses.close()
	op.server.again(r)
	return reply
}

// release sends one release. To do so twice does no harm, because tokens are never used again.
func (ses *session) release(r *Release) Reply {
	script, args := ses.op.args.release(r, ses.pinned)
	raw, err := ses.run(script, args)
	return parseEnd(raw, err, ses.sent)
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
