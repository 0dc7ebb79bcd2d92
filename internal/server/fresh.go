package server

import (
	"context"
	"time"
)

// Connections that a pool keeps may have broken meanwhile, all of them after a restart of the server; or lead nowhere,
// where a firewall has forgotten them. So an operation whose connection turns out to be broken goes on over a fresh one.
// After a connection that was silent, for which the whole bound of the operation was waited, it is the next operation on
// the key that begins with a fresh one: each of the others might be as silent. A release in the background does so too,
// but the next try or extension still has to: its caller waits, or its lease depends on it.

// maxRedials is how many broken connections of a pool that can't dial an operation takes out of it.
const maxRedials = 20

// severed reports whether err is that the connection has broken, as one does that was broken already while its pool
// kept it. Silence is something else.
func (ses *session) severed(err error) bool {
	return err != nil && !TimedOut(err) && ses.conn != nil && ses.conn.Err() != nil
}

// redial reports whether the session goes on over another connection, within the bound of the operation. It does not if
// the one that has broken was fresh, where the pool can dial.
func (ses *session) redial() bool {
	if ses.fresh || ses.redials == maxRedials || !time.Now().Before(ses.op.end) {
		return false
	}
	ses.redials++
	ses.close()
	ses.bad = false
	ses.fresh = ses.op.server.source.CanDial()
	return ses.connect() == nil
}

// connect makes a connection for the operation, or takes one out of the pool.
func (ses *session) connect() error {
	op := ses.op
	ses.within(op.end)
	if !ses.fresh {
		return ses.use(op.server.source.Get(op.wait))
	}
	ctx, cancel := context.WithDeadline(op.ctx.Context, op.end)
	defer cancel()
	return ses.use(op.server.source.Dial(ctx))
}

// A batch is an action about many keys.
type batch interface{ keys(each func(key string)) }

// hear notes that op had no answer, where that makes a difference: the pool can dial. One whose caller had less time than the node timeout tells nothing, nor does one that
// may have waited for its turn at the pool, nor one over a fresh connection: if that is silent, it is the server.
func (op *operation) hear(r *Reply) {
	source := op.server.source
	switch b, many := op.action.(batch); {
	case r.Verdict != Failed || !TimedOut(r.Err) || op.ours || op.fresh || !source.CanDial() || source.Full():
	case many:
		b.keys(op.server.silence)
	default:
		op.server.silence(op.key)
	}
}

// maxSilent bounds the memory that those keys cost which are never used again.
const maxSilent = 4096

func (s *Server) silence(key string) {
	if _, known := s.silent.LoadOrStore(key, true); known {
		return
	}
	if s.silences.Add(1) > maxSilent {
		s.silent.Clear()
		s.silences.Store(0)
	}
}

// wasSilent reports whether the last operation on key had no answer over a connection of the pool. It forgets that,
// unless it keeps it for the next one.
func (s *Server) wasSilent(key string, keeps bool) bool {
	if s.silences.Load() <= 0 {
		return false
	}
	if keeps {
		_, was := s.silent.Load(key)
		return was
	}
	_, was := s.silent.LoadAndDelete(key)
	if was {
		s.silences.Add(-1)
	}
	return was
}
