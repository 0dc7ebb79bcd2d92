package redimutex

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/mux"
	"github.com/redimutex/redimutex/internal/server"
)

// A Multiplexer is a [Pool] whose users share a few connections. See [Multiplex].
type Multiplexer struct{ shared *mux.Pool }

var _ Pool = (*Multiplexer)(nil)

// Multiplex returns a Pool over which many goroutines share conns connections to the server behind pool. Commands that
// come at the same time travel in one packet, so a process with many busy goroutines gets several times as many locks a
// second. One or two connections are enough for most programs. It gains nothing where few goroutines lock at a time.
//
// It works with everything but the pool of a cluster, and [WithReplicas], whose WAIT would keep the replies of everybody
// else waiting: New and NewClient panic.
//
// A command that times out does not disturb the others: its reply is thrown away when it comes. When a connection
// breaks, or its server has been silent for a second after a reply was overdue, what was under way fails, and the
// library cleans up behind it as it always does. A connection that nobody has used for some minutes is closed.
//
// The connections are dialled as pool dials its own; those of a *redis.Pool don't count against its MaxActive, and of
// another one they are borrowed as long as they last. Other code may use the Multiplexer as well, for commands that are
// over at once. Those that block, change the connection or turn it into a stream are refused: BLPOP and the like, WAIT,
// MULTI, WATCH, SELECT, AUTH, SUBSCRIBE, MONITOR. A command without a timeout of its own has 5 s.
//
// The caller closes it, after the Clients that use it; pool stays the caller's. It panics if pool is nil, itself
// multiplexed or a cluster, or if conns is less than 1.
func Multiplex(pool Pool, conns int) *Multiplexer {
	must(!isNil(pool), "Multiplex: the pool is nil")
	must(conns > 0, "Multiplex: conns is %d, and has to be 1 at least", conns)
	must(!multiplexed(pool), "Multiplex: the pool is multiplexed already")
	must(!mux.Clustered(pool), "Multiplex: a cluster has a different server for each key, so its connections can't be shared")
	return &Multiplexer{mux.New(pool, conns)}
}

// Get returns a connection that the caller uses as its own, and closes. While there is no
// connection to share it waits for one, 5 s at most.
func (m *Multiplexer) Get() redis.Conn { return m.shared.Get() }

// GetContext is Get that waits no longer than ctx lasts.
func (m *Multiplexer) GetContext(ctx context.Context) (redis.Conn, error) {
	return m.shared.GetContext(ctx)
}

// Close closes the shared connections. What is under way fails, and so does all that comes later.
// It always returns nil.
func (m *Multiplexer) Close() error { return m.shared.Close() }

func multiplexed(p Pool) bool {
	_, ok := p.(*Multiplexer)
	return ok
}

// serverPool is p as the servers use it.
func serverPool(p Pool) server.Pool {
	if m, ok := p.(*Multiplexer); ok {
		return m.shared
	}
	return p
}

// mustOwnConns panics if an option has to have a connection to itself, and gets none.
func (c *Client) mustOwnConns(o *config) {
	must(o.terms.Replicas.N == 0 || !c.shared,
		"WithReplicas(%d): not with a multiplexed pool, where its WAIT would keep everybody else waiting", o.terms.Replicas.N)
}
