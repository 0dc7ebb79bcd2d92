package server

import (
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
	limit  limit
	runner runner
}

// nodes are those of one Server.
type nodes struct {
	server  *Server
	single  node
	cluster atomic.Bool // the pool has turned out to be one
	slots   atomic.Pointer[[slots]*node]

	mu      sync.Mutex
	asked   time.Time // when the slots were asked for
	asking  bool
	refused bool // we may not ask
	closed  bool
	byAddr  map[string]*node
	bySlot  map[uint16]*node
	clocks  map[uint16]*clock // nodes of a cluster have clocks of their own
	alone   clock             // of a server
}

// How old may be what we know of the slots, and how long a node may take to tell.
const (
	slotsAge   = 10 * time.Second
	askTimeout = time.Second
)

// askTerms are those of asking for the slots.
var askTerms = Terms{Timeout: askTimeout}

// of returns the node that serves key.
func (n *nodes) of(key string) *node {
	if !n.several() {
		return &n.single
	}
	slot := Slot(key)
	if t := n.slots.Load(); t != nil && t[slot] != nil {
		return t[slot]
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.bySlot == nil {
		n.bySlot = make(map[uint16]*node)
	}
	if n.bySlot[slot] == nil {
		n.bySlot[slot] = n.fresh()
	}
	return n.bySlot[slot]
}

// several reports whether keys may be on different servers.
func (n *nodes) several() bool { return n.server.source.Cluster || n.cluster.Load() }

// fresh returns a new node. The caller holds n.mu.
func (n *nodes) fresh() *node {
	node := new(node)
	node.runner.server, node.runner.closed = n.server, n.closed
	return node
}

// clock returns the clock of the server that serves key.
func (n *nodes) clock(key string) *clock {
	if !n.several() {
		return &n.alone
	}
	slot := Slot(key)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.clocks == nil {
		n.clocks = make(map[uint16]*clock)
	}
	if n.clocks[slot] == nil {
		n.clocks[slot] = new(clock)
	}
	return n.clocks[slot]
}

// outdated notes that a slot was not where we thought.
func (n *nodes) outdated() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = time.Time{}
}

// learn asks a node that has just answered about key which nodes serve which slots, in the background, if that is not
// known or may have changed.
func (n *nodes) learn(key string) {
	if !n.server.running.Closing() && n.shouldAsk() {
		op := n.server.begin(context.Background(), &Lock{Key: key, Terms: &askTerms}, time.Time{}, 0) // Close waits for it
		go n.ask(op)
	}
}

// shouldAsk reports whether the caller has to ask.
func (n *nodes) shouldAsk() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asking || n.refused || n.closed || time.Since(n.asked) < slotsAge {
		return false
	}
	n.asking = true
	return true
}

func (n *nodes) ask(op *operation) {
	reply := n.server.bounded(op, question(func(ses *session) error {
		answer, err := redis.Values(ses.do("CLUSTER", "SLOTS"))
		if err == nil {
			n.take(answer)
		}
		return err
	}))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asking, n.asked = false, time.Now()
	n.refused = Permanent(reply.Err)
}

// take reads the reply to CLUSTER SLOTS: first slot, last slot, primary, its replicas.
func (n *nodes) take(answer []any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	table := new([slots]*node)
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
		addr := fmt.Sprintf("%s:%d", primary[0], primary[1])
		if n.byAddr == nil {
			n.byAddr = make(map[string]*node)
		}
		if n.byAddr[addr] == nil {
			n.byAddr[addr] = n.fresh()
		}
		for slot := first; slot <= last; slot++ {
			table[slot] = n.byAddr[addr]
		}
	}
	n.slots.Store(table)
}

// all returns every node.
func (n *nodes) all() []*node {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := []*node{&n.single}
	for _, node := range n.byAddr {
		all = append(all, node)
	}
	for _, node := range n.bySlot {
		all = append(all, node)
	}
	return all
}

// close lets nothing more be released than what there is, and waits for one last release of that, until end at most.
func (n *nodes) close(end time.Time) {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	var over []<-chan struct{}
	for _, node := range n.all() {
		if o := node.runner.close(); o != nil {
			over = append(over, o)
		}
	}
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	for _, o := range over {
		select {
		case <-o:
		case <-timer.C:
			return
		}
	}
}
