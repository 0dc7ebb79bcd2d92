package server

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A node is what has to answer by itself: a server, or a primary of a cluster. One that hangs must not keep what concerns
// another one waiting, so each has its own limit and its own runner. In a cluster that does not tell us which node
// serves which slot, each slot is taken for a node.
type node struct {
	others, extensions limits // extensions do not wait behind other operations
	runner             runner
}

// An operation that dials does not wait behind those that wait for the pool, or for a reply over one of its connections.
type limits struct{ pooled, dialled limit }

type nodes struct {
	server  *Server
	single  node
	alone   clock       // of a server
	cluster atomic.Bool // keys may be on different servers, as far as we know by now

	mu      sync.Mutex
	asked   time.Time // when the slots were asked for
	asking  bool
	refused bool    // we may not ask
	made    []*node // all that there ever were, but for the single one
	byName  map[string]*node
	bySlot  map[uint16]*node
	clocks  map[uint16]*clock // by slot: a slot that moves must not bring the clock of its node along
}

// How long we go by an answer about the slots, and how long a node may take for it.
const slotsAge, askTimeout = 10 * time.Second, time.Second

// A place is where a key is: the node that serves it, and the clock of that.
type place struct {
	node  *node
	clock *clock
}

func (n *nodes) at(key string) place {
	if !n.cluster.Load() {
		return place{&n.single, &n.alone}
	}
	slot := Slot(key)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.bySlot[slot] == nil {
		n.bySlot[slot] = n.newNode()
	}
	if n.clocks[slot] == nil {
		n.clocks[slot] = new(clock)
	}
	return place{n.bySlot[slot], n.clocks[slot]}
}

// newNode returns a new node. The caller holds n.mu.
func (n *nodes) newNode() *node {
	node := new(node)
	node.runner.server = n.server
	n.made = append(n.made, node)
	return node
}

// outdated notes that a slot was not where we thought.
func (n *nodes) outdated() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = time.Time{}
}

// askSlots asks a node that has just answered about key which nodes serve which slots, in the background, if that may be new.
func (n *nodes) askSlots(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server.running.Closing() || n.asking || n.refused || time.Since(n.asked) < slotsAge {
		return
	}
	n.asking = true
	n.server.running.Go(func() { // Close waits for it
		answer, err := redis.Values(n.server.Session(n.server.background, askTimeout, key).Do("CLUSTER", "SLOTS"))
		n.mu.Lock()
		defer n.mu.Unlock()
		n.takeSlots(answer)
		n.asking, n.asked, n.refused = false, time.Now(), Permanent(err)
	})
}

// takeSlots takes in the reply to CLUSTER SLOTS: first slot, last slot, primary, its replicas. The caller holds n.mu.
func (n *nodes) takeSlots(answer []any) {
	for _, raw := range answer {
		row, _ := raw.([]any)
		if len(row) < 3 {
			continue
		}
		first, _ := row[0].(int64)
		last, _ := row[1].(int64)
		primary, _ := row[2].([]any)
		if len(primary) < 2 || first < 0 || last >= slots {
			continue
		}
		name := fmt.Sprint(primary[:min(len(primary), 3)]) // host, port and ID; the host may be nil
		if n.byName[name] == nil {
			n.byName[name] = n.newNode()
		}
		for slot := first; slot <= last; slot++ {
			n.bySlot[uint16(slot)] = n.byName[name]
		}
	}
}

// close lets nothing more be released than what there is, and waits for one last release of that, until end at most.
func (n *nodes) close(end time.Time) {
	runners := &n.server.runners
	runners.Wait(0) // nothing more is taken in
	n.mu.Lock()
	all := append([]*node{&n.single}, n.made...)
	n.mu.Unlock()
	for _, node := range all {
		node.runner.expedite(nil) // it sends one batch after the other
	}
	runners.Wait(time.Until(end) / 8)
	for _, node := range all { // then all at once: if the node hangs, a batch lasts as long as Close
		for range releaseBatch { // so many connections at most
			if batch, _ := node.runner.due(); batch != nil {
				runners.Go(func() {
					for ; batch != nil; batch, _ = node.runner.due() {
						n.server.releaseAll(n.server.background, batch)
					}
				})
			}
		}
	}
	runners.Wait(time.Until(end))
}

const maxStuck, many = 16, 256 // operations of a node may always run at once; so many may wait while it hangs

// A limit bounds how many operations of a node run at once: if it hangs, each keeps a goroutine, with a connection or a dial
// that nothing ends. As with TCP's window, the bound grows while operations come back in time, and falls when one does not.
type limit struct {
	mu      sync.Mutex
	running int
	more    int          // how many may run beyond maxStuck
	stuck   atomic.Int32 // those of them whose callers have gone
	waiting list.List    // of chan struct{}, in order of arrival: closed when that one may run
}

// A Round is the ctx of operations that ask several servers at once. It does not end with its caller's: that would break
// connections. But what waits for its turn when the try has failed never begins: a hung server would keep one of each call.
type Round struct {
	context.Context
	Over    chan struct{} // closed when the caller waits no more: see leaves
	Dropped chan struct{} // closed when the caller drops what it asked for: all that waits gives up
}

// leaves returns what is closed when the caller of an operation waits no more, of so many that wait. In a Round the operation
// waits on until its caller drops what it asked for: it is a vote all the same. But not behind many while the server hangs.
func (s *Server) leaves(ctx context.Context, waiting int) <-chan struct{} {
	r, ok := ctx.(*Round)
	switch {
	case !ok:
		return ctx.Done()
	case waiting > many && s.Silent(time.Now()) > 5*MinSilence: // for less, the machine may be busy with many calls at once
		return r.Over
	}
	return r.Dropped
}

// enter waits until op may run, and returns the limit that it then has to leave. Where as many as may are stuck at the pool,
// op dials, but for one at a time that tries the pool (see probe). An extension dials where another extension is stuck.
func (l *limits) enter(op *operation) (entered *limit, err error) {
	stuck := l.pooled.stuck.Load()
	if op.verb == extend && stuck > 0 || stuck >= maxStuck {
		if op.verb != extend && !op.fresh.Load() && l.pooled.enter(op, time.Time{}, false) == nil {
			return &l.pooled, nil // the one that tries the pool
		}
		op.freshen()
	}
	if entered = &l.pooled; op.fresh.Load() {
		entered = &l.dialled
	}
	return entered, entered.enter(op, op.end, op.verb == release && op.server.running.Closing())
}

// enter waits, but not if last, until one more may run, in order of arrival. It fails at the end, at once if that is zero, or
// when the caller leaves.
func (l *limit) enter(op *operation, end time.Time, last bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case last || l.running < maxStuck+l.more: // where there is room, none waits
		l.running++
		return nil
	case end.IsZero():
		return errTimeout
	}
	turn := make(chan struct{})
	place := l.waiting.PushBack(turn)
	leave := op.server.leaves(op.Context, l.waiting.Len())
	l.mu.Unlock()
	select {
	case <-turn:
	case <-time.After(time.Until(end)):
	case <-leave:
	}
	l.mu.Lock()
	select {
	case <-turn: // perhaps just then
		return nil
	default:
	}
	l.waiting.Remove(place)
	if time.Now().Before(end) {
		return cmp.Or(op.Context.Err(), context.Canceled)
	}
	return fmt.Errorf("%w (too many operations are stuck on this server)", errTimeout)
}

// leave ends an operation that came back in time, or late. That a dial failed at once, say, is no reason for more of them.
func (l *limit) leave(op *operation, inTime bool) {
	code, _ := said(op.requests[0].reply.Err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !inTime {
		l.stuck.Add(-1)
	} else if l.running == maxStuck+l.more && (op.requests[0].reply.Verdict != Failed || code != "") {
		l.more++
	}
	l.running--
	l.admit()
}

// admit has those run that may. The caller holds l.mu.
func (l *limit) admit() {
	for ; l.waiting.Len() > 0 && l.running < maxStuck+l.more; l.running++ {
		close(l.waiting.Remove(l.waiting.Front()).(chan struct{}))
	}
}

// probe lets one more run where all that may are stuck, up to 80: the server answers what is dialled, so the pool may be good.
func (l *limit) probe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stuck := int(l.stuck.Load()); stuck < 5*maxStuck {
		l.more = max(l.more, stuck+1-maxStuck)
		l.admit()
	}
}

// abandon notes that the caller of an operation which still runs has gone. late: the operation has used up its bound, and so
// may the others have that run.
func (l *limit) abandon(late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stuck.Add(1) > maxStuck || late {
		l.more = 0
	}
}
