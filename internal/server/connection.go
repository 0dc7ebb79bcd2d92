package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redimutex/redimutex/internal/conn"
)

// Idle connections of a pool may have broken, all of them after a restart of the server. Or they may lead nowhere, if a
// firewall has forgotten them. So an operation that finds its connection broken goes on over a fresh one. If a connection was
// silent for the whole bound of the operation, the next operation on the key begins with a fresh one: the other idle ones may
// be as silent. If that next operation is a release in the background, the next try or extension dials as well.
//
// Others may use up the pool. So an urgent operation waits a quarter of its time for a full pool, and then dials. If the dial
// is refused, the server may take no more connections, and the operation waits for one that the pool need not dial.

// freshen makes the operation dial its next connection, if it can. If as many connections are dialled beside the pool as the
// pool may have, only an urgent operation dials.
func (op *operation) freshen() {
	beside, limit := &op.server.beside, int64(op.server.Source.Limit)
	if op.fresh.Load() || op.server.Source.Dial == nil {
		return
	}
	op.fresh.Store(beside.Add(1) <= limit || limit == 0 || op.urgent())
	if !op.fresh.Load() {
		beside.Add(-1)
	}
}

// urgent reports whether a failure has a price: a lease that is lost, or a key that stays. A release leaves its key if it
// fails in the background, or in Close, after which no other release follows.
func (op *operation) urgent() bool {
	return op.verb == extend || op.verb == release && (op.aside || op.server.running.Closing())
}

// connect takes a connection out of the pool for the operation, or dials one, with the operation as the ctx. A pool that may
// keep the ctx, or wait for its Done at the deadline, gets another ctx, which ends with the checkout.
func (op *operation) connect() (err error) {
	op.deadline = op.end
	source, end := op.server.Source, op.end
	if op.urgent() && !op.fresh.Load() && source.Full() { // a pool that can be full can dial
		end = time.Now().Add(time.Until(end) / 4)
	} else if !source.Punctual && !op.endsWithCaller {
		end = end.Add(-end.Sub(op.began) / 32) // so that the pool gives up before op.timer fires: it knows why it has none
	}
	var ctx context.Context = op
	if op.fresh.Load() || source.KeepsContext {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(op.Context, end)
		defer cancel()
	}
	if op.fresh.Load() && !op.backToPool {
		op.conn, err = source.Dial(ctx)
	} else {
		op.conn, err = source.Get(ctx)
	}
	if err != nil {
		op.conn = nil
		return explain(err)
	}
	// A connection to a cluster has to be told the key: else it would take the hash of a script for the key.
	if b, ok := op.conn.(interface{ Bind(keys ...string) error }); ok {
		op.pinned = true
		op.server.nodes.cluster.Store(true)
		if err = conn.Plain(conn.Calm(func() error { return b.Bind(op.key) })); err != nil {
			op.close()
		}
	}
	return err
}

func (op *operation) close() {
	if op.conn == nil {
		return
	}
	conn.Close(op.conn, op.bad)
	op.conn, op.bad = nil, false
}

func (op *operation) early() bool { return time.Since(op.began) < time.Until(op.end) } // in the first half of its time

// goesOn reports whether the operation goes on over another connection after err, within its bound. It dials that connection;
// if a dialled one has failed, it takes one of the pool. It goes on if its connection has broken, perhaps while the pool kept
// the connection. It does not go on if the server is only silent.
func (op *operation) goesOn(err error) bool {
	source, broken := op.server.Source, op.conn != nil && conn.Calm(op.conn.Err) != nil
	switch {
	case op.redials >= source.Redials || !time.Now().Before(op.end):
		return false
	case op.backToPool: // the server takes no more: wait until the pool has an idle one, but ask it now and then in any case
		next := time.Now().Add(op.end.Sub(op.began) / 16)
		for ; op.urgent() && full(err) && op.early() && op.Err() == nil; time.Sleep(time.Millisecond) {
			if source.Idle() || time.Now().After(next) {
				return true
			}
		}
		return false
	case op.fresh.Load():
		return turnedAway(err) || !timedOut(err) && (op.conn == nil || broken && op.urgent())
	case broken && !timedOut(err):
		return true
	}
	code, _ := said(err) // "": the connection may have broken although its Err is nil, as that of a RetryConn
	useless := op.conn == nil || turnedAway(err) || code == "" && !timedOut(err)
	return useless && op.urgent() && source.Dial != nil
}

// attempt gets a connection, and does over it what is asked. If there is no connection, the error says why: that helps more
// than the error of the connection before, which has broken.
func (op *operation) attempt() error {
	if err := op.connect(); err != nil {
		return untried{err}
	}
	least := min(max(op.server.RTT(), time.Millisecond), op.due.Sub(op.began)/8) // a late reply would break the connection
	switch {
	case op.verb != release && (op.state.Load() == abandoned || !op.fresh.Load() && time.Until(op.due) < least):
		return untried{errShort}
	case op.ask != nil:
		return op.ask(op)
	case op.try.Plain && !op.repeats:
		return op.set()
	}
	return op.scripts()
}

// follow connects to the server of the key, if the error says that this is another one now, and reports whether it has. n: how
// often the command was sent before. The server has refused the command, so it is safe to repeat it. The first command of a
// process mostly gets MOVED. After the refusal of a replica the operation dials if it can, because the pool may have many
// connections to the replica. It does so only in the first half of its time; later the caller gets err. ASK is left to the
// next try: the connection can't be told to go where it points.
func (op *operation) follow(err error, n int) bool {
	if op.verb != release && op.state.Load() == abandoned {
		return false
	}
	for i := range op.requests {
		if op.requests[i].unconfirmed { // WAIT is about what this connection wrote
			return false
		}
	}
	switch {
	case replicas(err) && !op.pinned && !op.fresh.Load() && op.redials < op.server.Source.Redials && op.early():
		op.redials++
		op.freshen()
	case op.pinned && coded(err, "MOVED") && n < maxMoves: // the pool has heard it as well, and now knows the node
		op.server.nodes.outdated()
		if op.verb == extend { // redisc takes another node if the pool of the right one is exhausted
			op.freshen()
		}
	default:
		return false
	}
	op.server.nodes.at(op.key).clock.forget(time.Now()) // another node has another clock
	op.close()
	return op.connect() == nil
}

func (op *operation) command(name string, args ...any) (any, error) {
	if op.conn == nil { // follow got none
		return nil, errors.New("no connection to the node that serves the key")
	}
	op.sent = time.Now()
	reply, err := op.server.Source.Do(op, op.conn, name, args...)
	op.received = op.sent.Add(time.Since(op.sent)) // reads the monotonic clock alone, which takes half the time
	if err != nil {
		return nil, op.failed(err)
	}
	return reply, nil
}

func (op *operation) failed(err error) error {
	code, text := said(err)
	op.bad = op.bad || turnedAway(err) || errors.Is(err, conn.ErrPanicked)
	switch {
	case errors.Is(err, conn.ErrNoSend):
		op.server.oneByOne.Store(true)
		return err
	case code == "":
		return conn.Plain(err)
	case replicas(err), strings.Contains(text, "WAIT cannot be used with replica instances"):
		// The connection itself may be good, so the pool would hand it out again and again.
		op.bad = true
		op.server.demoted.Store(true)
		op.server.nodes.at(op.key).clock.forget(time.Now()) // the next primary may have another clock
		op.server.scripted.Store(false)
	}
	return explain(err)
}

// pipeline runs n commands in one round trip, if the connection can; lay returns the i-th and its arguments. Errors of the
// server are among the replies. An error of the connection is returned. op.sent is before the first command.
func (op *operation) pipeline(n int, lay func(i int) (string, []any)) ([]any, error) {
	op.sent = time.Now()
	replies, err := op.server.Source.Batch(op, op.conn, n, lay)
	if err != nil {
		return nil, op.failed(err)
	}
	op.received = time.Now()
	for i, reply := range replies {
		if e, ok := reply.(error); ok {
			if e = op.failed(e); turnedAway(e) && i == 0 { // otherwise a proxy passes on the answer of one of its servers
				return nil, e
			}
			replies[i] = e
		}
	}
	return replies, nil
}
