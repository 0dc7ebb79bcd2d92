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

// A node answers by itself: it is a server, or one primary of a cluster. A node that hangs must not delay operations on
// another node, so each has its own limits and its own runner. If a cluster does not tell its slots, each counts as a node.
type node struct {
	others, extensions limits // extensions do not wait behind other operations
	runner             runner
}

// limits are two, so that an operation that dials does not wait behind those that wait for the pool, or for a reply over it.
type limits struct{ pooled, dialled limit }

type nodes struct {
	server  *Server
	single  node
	alone   clock       // of the server, if it is not a cluster
	cluster atomic.Bool // keys may be on different servers, as far as we know by now

	mu      sync.Mutex // guards the fields below
	asked   time.Time  // when the slots were asked for
	asking  bool
	refused bool    // the cluster does not let us ask
	made    []*node // all nodes there ever were, except single
	byName  map[string]*node
	bySlot  map[uint16]*node
	clocks  map[uint16]*clock // by slot, not by node: a slot that moves must not bring the clock of its old node along
}

// slotsAge is how long we trust an answer about the slots. askTimeout is how long a node may take to give it.
const slotsAge, askTimeout = 10 * time.Second, time.Second

// A place is where a key is: the node that serves it, and the clock of that node.
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

// outdated notes that a slot has moved, so that the slots are asked for again.
func (n *nodes) outdated() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = time.Time{}
}

// askSlots asks in the background which nodes serve which slots, if the last answer is old. It asks the node that serves key.
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

// takeSlots takes in the reply to CLUSTER SLOTS: rows of first slot, last slot, primary, replicas. The caller holds n.mu.
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

// close makes the runners refuse further claims, and waits for one last release of those they have, until end at most.
func (n *nodes) close(end time.Time) {
	runners := &n.server.runners
	runners.Wait(0) // from now on the runners refuse claims
	n.mu.Lock()
	all := append([]*node{&n.single}, n.made...)
	n.mu.Unlock()
	for _, node := range all {
		node.runner.expedite(nil) // the runner sends one batch after the other
	}
	runners.Wait(time.Until(end) / 8)
	for _, node := range all { // then all batches at once: if the node hangs, each lasts as long as Close
		for range releaseBatch { // the number of connections at most
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

const maxStuck, maxWaiting = 16, 256 // maxStuck operations of a node may always run at once; many may wait while the node hangs

// A limit bounds how many operations of a node run at once. If the node hangs, each keeps a goroutine, and a connection or
// dial that nothing ends. As TCP's window, the limit grows while operations come back in time, and falls when one is late.
type limit struct {
	mu      sync.Mutex
	running int
	extra   int          // how many may run beyond maxStuck
	stuck   atomic.Int32 // how many run although their callers have left
	waiting list.List    // of chan struct{}, in order of arrival; each is closed when its operation may run
}

// A Round is the ctx of operations that ask several servers at once. It does not end with the caller's ctx, because that would
// break connections. But an operation that waits for its turn when the try has failed never begins: otherwise a hung server
// would keep an operation of each call.
type Round struct {
	context.Context
	Over    chan struct{} // closed when the caller waits no longer: see leaves
	Dropped chan struct{} // closed when the caller drops its try: operations that wait for their turn give up
}

// leaves returns a channel that is closed when an operation has to stop waiting for its turn. waiting is how many wait. In a
// Round an operation waits until its caller drops the try, even if the caller has returned: its answer is still a vote. Only
// while the server hangs and many wait, it leaves with its caller.
func (s *Server) leaves(ctx context.Context, waiting int) <-chan struct{} {
	r, ok := ctx.(*Round)
	switch {
	case !ok:
		return ctx.Done()
	case waiting > maxWaiting && s.Silent(time.Now()) > 5*MinSilence: // a shorter silence may mean that the machine is busy with many calls
		return r.Over
	}
	return r.Dropped
}

// enter waits until op may run, and returns the limit that op has to leave afterwards. If maxStuck operations are stuck at the
// pool, op dials, but one at a time tries the pool (see probe). An extension dials if another extension is stuck.
func (l *limits) enter(op *operation) (entered *limit, err error) {
	stuck := l.pooled.stuck.Load()
	if op.verb == extend && stuck > 0 || stuck >= maxStuck {
		if op.verb != extend && !op.fresh.Load() && l.pooled.enter(op, time.Time{}, false) == nil {
			return &l.pooled, nil // op is the one that tries the pool
		}
		op.freshen()
	}
	entered = &l.pooled
	if op.fresh.Load() {
		entered = &l.dialled
	}
	return entered, entered.enter(op, op.end, op.verb == release && op.server.running.Closing())
}

// enter waits in order of arrival until op may run. With last it does not wait: op may run. It fails at end, or when the
// caller leaves. With a zero end it fails instead of waiting.
func (l *limit) enter(op *operation, end time.Time, last bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case last || l.running < maxStuck+l.extra: // while there is room, none waits
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
	case <-turn: // the turn has come meanwhile
		return nil
	default:
	}
	l.waiting.Remove(place)
	if time.Now().Before(end) {
		return cmp.Or(op.Context.Err(), context.Canceled)
	}
	return fmt.Errorf("%w (too many operations are stuck on this server)", errTimeout)
}

// leave ends an operation. The limit grows only if the server has answered: a dial that fails at once is no reason for more.
func (l *limit) leave(op *operation, inTime bool) {
	code, _ := said(op.requests[0].reply.Err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !inTime {
		l.stuck.Add(-1)
	} else if l.running == maxStuck+l.extra && (op.requests[0].reply.Verdict != Failed || code != "") {
		l.extra++
	}
	l.running--
	l.admit()
}

// admit starts as many waiting operations as the limit allows. The caller holds l.mu.
func (l *limit) admit() {
	for ; l.waiting.Len() > 0 && l.running < maxStuck+l.extra; l.running++ {
		close(l.waiting.Remove(l.waiting.Front()).(chan struct{}))
	}
}

// probe lets one more operation try the pool, while fewer than 80 are stuck: the server answers over dialled connections.
func (l *limit) probe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stuck := int(l.stuck.Load()); stuck < 5*maxStuck {
		l.extra = max(l.extra, stuck+1-maxStuck)
		l.admit()
	}
}

// abandon notes that the caller has left an operation that still runs. late: the operation has used up its bound, and the
// others that run may have too.
func (l *limit) abandon(late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stuck.Add(1) > maxStuck || late {
		l.extra = 0
	}
}
