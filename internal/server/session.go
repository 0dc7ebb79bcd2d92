package server

import (
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

// A session is a connection that is checked out for one operation.
type session struct {
	op     *operation
	conn   redis.Conn
	key    string
	pinned bool // bound to the cluster node of the key
	bad    bool // its pool must not keep the connection

	fresh   bool // its connection was dialled for it
	redials int  // how often it went on over another connection

	// Of the last command.
	sent, received time.Time
}

// use takes c, which the pool has given, for the session.
func (ses *session) use(c redis.Conn, err error) error {
	if err != nil {
		return err
	}
	ses.conn = c
	b, pinned := c.(binder)
	if !pinned {
		return nil
	}
	ses.pinned = true
	ses.op.server.nodes.cluster.Store(true)
	if err := b.Bind(ses.key); err != nil {
		ses.close()
		return conn.Plain(err)
	}
	return nil
}

// A binder is a connection to a cluster, which has to be told the key that it is for before it can be
// used for scripts: it would take the hash of a script for the key.
type binder interface{ Bind(keys ...string) error }

// close gives the connection back.
func (ses *session) close() {
	if ses.conn == nil {
		return
	}
	if ses.bad {
		conn.Discard(ses.conn)
	}
	ses.conn.Close()
	ses.conn = nil
}

// errNoConnection is what the commands get that come after one whose node has moved to where there was no connection.
var errNoConnection = errors.New("no connection to the node that serves the key")

// within sets the deadline of what comes.
func (ses *session) within(deadline time.Time) { ses.op.ctx.deadline = deadline }

// do runs one command within the deadline.
func (ses *session) do(command string, args ...any) (reply any, err error) {
	if ses.conn == nil {
		return nil, errNoConnection
	}
	ses.sent = time.Now()
	reply, err = ses.op.server.source.Do(&ses.op.ctx, ses.conn, command, args...)
	ses.received = ses.sent.Add(time.Since(ses.sent)) // the monotonic clock alone, in half of the time
	if err != nil {
		return nil, ses.failed(err)
	}
	return reply, nil
}

// failed looks at an error of a command.
func (ses *session) failed(err error) error {
	var said redis.Error
	if errors.As(err, &said) {
		if readOnly(said) {
			// The server is a replica now. The connection may be as good as ever, and the pool would hand it out again and again.
			ses.bad = true
			ses.clock(ses.key).forget() // the next primary may have another
			ses.op.server.demotion()
		}
		return explain(err)
	}
	return conn.Plain(err)
}

// pipeline runs n commands in one round trip, where the connection can; lay returns the i-th and its arguments. got is
// called with each reply; errors of the server stand in it. An error of the connection is returned. sent is before all of
// them.
func (ses *session) pipeline(n int, lay func(i int) (string, []any), got func(i int, reply any)) error {
	ses.sent = time.Now()
	err := ses.op.server.source.Batch(&ses.op.ctx, ses.conn, n, lay, func(i int, reply any) {
		ses.received = time.Now()
		if e, ok := reply.(error); ok {
			reply = ses.failed(e)
		}
		got(i, reply)
	})
	if err != nil {
		return ses.failed(err)
	}
	return nil
}

// eval runs a script. args is what follows it in the command: the number of keys, the keys, the arguments; its
// first place is free, for the script itself.
func (ses *session) eval(s script, args []any) (any, error) {
	args[0] = s.hash
	reply, err := ses.do("EVALSHA", args...)
	switch {
	case noScript(err):
		// The server was restarted or its script cache flushed.
		args[0] = s.source
		reply, err = ses.do("EVAL", args...)
	case err == nil:
		ses.op.server.heard(ses.received.Sub(ses.sent))
	}
	return reply, err
}

// evalAll runs n scripts, in one round trip; errors of the server stand in the replies. lay gives the i-th script and its
// arguments, as eval takes them. One that is alone can be sent again where the server does not know it.
func (ses *session) evalAll(n int, lay func(i int) (script, []any), got func(i int, raw any)) error {
	if n == 1 {
		raw, err := ses.eval(lay(0))
		var said redis.Error
		switch {
		case errors.As(err, &said):
			raw = err
		case err != nil:
			return err
		}
		got(0, raw)
		return nil
	}
	return ses.pipeline(n, func(i int) (string, []any) {
		s, args := lay(i)
		args[0] = s.hash
		return "EVALSHA", args
	}, got)
}

// moveTo goes to the node of another key.
func (ses *session) moveTo(key string) error {
	if !ses.pinned || ses.key == key && ses.conn != nil {
		return nil
	}
	ses.close()
	ses.key = key
	return ses.connect()
}

// follow goes to the node of a cluster that serves the key now, and reports whether that was why err came. The node that
// said so has refused the command, so it is safe to repeat it; and without that the first command of a process that
// does not know the cluster yet would fail most of the time, for good where there is a single try.
//
// ASK, which is said while a slot is on its way to another node, is left to the next try: the
// connection can't be told to go where it points.
func (ses *session) follow(err error) bool {
	if !ses.pinned || !moved(err) {
		return false
	}
	ses.op.server.nodes.outdated()
	ses.clock(ses.key).forget() // another node has another
	ses.close()                 // the pool has heard it as well, and now knows the node
	return ses.connect() == nil
}

// run is eval for scripts that carry no deadline, at the node that serves the key.
func (ses *session) run(s script, args []any) (any, error) {
	reply, err := ses.eval(s, args)
	if ses.follow(err) {
		return ses.eval(s, args)
	}
	return reply, err
}

// clock returns what is known of the clock of the server that serves key.
func (ses *session) clock(key string) *clock { return ses.op.server.nodes.clock(key) }

// elsewhere reports whether err is that a script of a batch has to be sent again alone, to where its key is now.
func elsewhere(err error) bool { return noScript(err) || moved(err) }

// askTime learns the server's clock.
func (ses *session) askTime(clocks ...*clock) error {
	v, err := redis.Int64s(ses.do("TIME"))
	if err != nil {
		return err
	}
	if len(v) != 2 {
		return errors.New("an unexpected reply to TIME")
	}
	for _, c := range clocks {
		c.learn(v[0]*1e6+v[1], ses.sent, ses.received)
	}
	return nil
}

// waitReplicas waits until the replicas have what this connection wrote.
func (ses *session) waitReplicas(r Replicas) error {
	ses.within(ses.op.end)
	got, err := redis.Int(ses.do("WAIT", r.N, max(r.Timeout.Milliseconds(), 1)))
	if err != nil {
		return err
	}
	if got < r.N {
		return replicaError{got, r}
	}
	return nil
}
