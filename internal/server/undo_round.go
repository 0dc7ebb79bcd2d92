package server

import (
	"context"
	"time"
)

// release tries to give back a batch and forgets what is done. It reports whether the node answered.
func (w *undoer) release(batch []*undo) bool {
	defer w.attempted(batch)
	answers := new(undoing)
	l := &Lock{Key: batch[0].Key, Timeout: batch[0].Timeout}
	for _, u := range batch {
		answers.batch = append(answers.batch, u.now()) // a worker that is abandoned may read it after the next round
		l.Timeout = max(l.Timeout, u.Timeout)
	}
	op := w.server.begin(context.Background(), l, time.Time{}, 0)
	op.fresh = w.failed.Load()
	done := w.server.bounded(op, answers).Verdict == Done
	w.failed.Store(!done)
	if !done {
		return false
	}
	answered := true
	for i, reply := range answers.replies {
		if reply.Verdict == Failed && !Permanent(reply.Err) {
			answered = false
			continue
		}
		w.conclude(batch[i], reply)
	}
	return answered
}

// undoing is the action of release. The replies are there when it is Done.
type undoing struct {
	batch   []*Release
	replies []Reply
}

func (a *undoing) do(op *operation) Reply {
	ses, err := op.open(a.batch[0].Key)
	if err != nil {
		return Reply{Err: err}
	}
	defer func() { ses.close() }()
	op.sending()
	replies := make([]Reply, len(a.batch))
	lay := func(i int) (script, []any) { return op.args.release(a.batch[i], ses.pinned) }
	err = ses.evalAll(len(a.batch), lay, func(i int, raw any) { replies[i] = parseEnd(raw, nil, ses.sent) })
	if err != nil {
		return Reply{Err: err}
	}
	for i := range replies {
		// What the first round trip could not settle goes to where it has to.
		if err := replies[i].Err; noScript(err) || moved(err) {
			replies[i] = ses.releaseAgain(a.batch[i])
		}
	}
	a.replies = replies
	return Reply{Verdict: Done}
}

func (*undoing) abandon(_ *operation, err error, _ bool) Reply { return Reply{Err: err} }
func (*undoing) late(*operation)                               {}

// releaseAgain releases a single lock that a pipeline did not.
func (ses *session) releaseAgain(r *Release) Reply {
	if err := ses.moveTo(r.Key); err != nil {
		return Reply{Err: err}
	}
	return ses.release(r)
}
