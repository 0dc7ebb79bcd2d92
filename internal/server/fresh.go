package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Connections that a pool keeps may have broken meanwhile, all of them after a restart of the server; or lead nowhere,
// where a firewall has forgotten them. So an operation whose connection turns out to be broken goes on over a fresh one.
// After a connection that was silent, for which the whole bound of the operation was waited, it is the next operation on
// the key that begins with a fresh one: each of the others might be as silent.

// steady runs f, and again over a fresh connection if the one that it had turns out to be broken. So what f sends may be
// executed twice.
func (ses *session) steady(f func() error) error {
	err := f()
	for ses.severed(err) && ses.redial() == nil {
		err = f()
	}
	return err
}

// severed reports whether err is that the connection has broken, as one does that was broken already while its pool
// kept it. Silence is something else.
func (ses *session) severed(err error) bool {
	return err != nil && !TimedOut(err) && ses.conn != nil && ses.conn.Err() != nil
}

// redial goes on with a fresh connection, within the bound of the operation. It fails if the one that has broken was fresh,
// where the pool can dial.
func (ses *session) redial() error {
	if ses.fresh || ses.redials == maxRedials || !time.Now().Before(ses.op.end) {
		return errNoConnection
	}
	ses.redials++
	ses.close()
	ses.bad = false
	ses.fresh = ses.op.server.source.CanDial()
	return ses.connect()
}

// maxRedials is how many broken connections of a pool that can't dial an operation takes out of it.
const maxRedials = 20

// connect makes a connection for op, or takes one out of the pool.
func (ses *session) connect() error {
	op := ses.op
	get := op.server.source.Get
	var ctx context.Context = op.wait
	if ses.fresh {
		bounded, cancel := context.WithDeadline(op.ctx.Context, op.end)
		defer cancel()
		ctx, get = bounded, op.server.source.Fresh
	}
	c, err := get(ctx)
	if err != nil {
		return err
	}
	return ses.use(c)
}

// hear notes that op had no answer. One whose caller had less time than the node timeout tells nothing, nor does one that
// may have waited for its turn at the pool, nor one over a fresh connection: if that is silent, it is the server.
func (op *operation) hear(r *Reply) {
	if r.Verdict != Failed || !TimedOut(r.Err) || op.ours || op.fresh || op.server.source.Full() {
		return
	}
	switch a := op.action.(type) {
	case releasingAll: // the runner sees to it itself
	case *extending:
		for i := range a.leases {
			op.server.silent.add(a.leases[i].Key)
		}
	default:
		op.server.silent.add(op.key)
	}
}

// marks are keys of which something is remembered until they are used again.
type marks struct {
	any atomic.Bool // there are some

	mu  sync.Mutex
	set map[string]bool
}

// maxMarks bounds the memory that those cost which are never used again.
const maxMarks = 4096

func (m *marks) add(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.set == nil || len(m.set) >= maxMarks {
		m.set = make(map[string]bool)
	}
	m.set[name] = true
	m.any.Store(true)
}

// take reports whether name is among them, and forgets it.
func (m *marks) take(name string) bool {
	if !m.any.Load() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.set[name]
	delete(m.set, name)
	m.any.Store(len(m.set) > 0)
	return found
}

// wasSilent reports whether the last operation on key had no answer over a connection of the pool.
func (s *Server) wasSilent(key string) bool { return s.silent.take(key) }
