package topologies_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/topologies"
)

// primary returns the node that serves a key in a cluster that was just started.
func primary(key string) int {
	node := 0
	for redisc.Slot(key) >= (node+1)*16384/3 {
		node++
	}
	return node
}

// keysOf returns n keys of a primary.
func keysOf(node, n int) []string {
	var keys []string
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("key ", i); primary(key) == node {
			keys = append(keys, key)
		}
	}
	return keys
}

// hang suspends a primary, and its replica, which would take its place.
func hang(t *testing.T, c *redistest.Cluster, node int) {
	t.Helper()
	for _, n := range []*redistest.Server{c.Nodes[node+3], c.Nodes[node]} {
		n.Pause()
		t.Cleanup(n.Resume)
	}
}

// A machine that stands still lets that many leases expire. So a run with losses is repeated if the machine was late.
func TestClusterNodeThatHangsCostsNoLeaseOfTheOthersHoweverMany(t *testing.T) {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		var lost, of int
		_, late := redistest.Overrun(0, func() { lost, of = lostWhileANodeHangs(t) })
		if lost == 0 || late < 100*time.Millisecond || attempt == attempts {
			assert.Zero(t, lost, "leases of healthy nodes, of %d, that were lost; the machine was late by %v", of, late)
			return
		}
	}
}

func lostWhileANodeHangs(t *testing.T) (lost, of int) {
	const (
		leases = 1500 // on three nodes
		ttl    = 6 * time.Second
	)
	c, pool := startCluster(t)
	client := locktest.Client(t, pool(), redimutex.WithTTL(ttl))
	var others []*redimutex.Mutex
	for i := range leases {
		m := client.Mutex(fmt.Sprint("key ", i))
		require.NoError(t, m.LockContext(patience(t), 0))
		if primary(m.Key()) != 0 {
			others = append(others, m)
		}
	}
	hang(t, c, 0)
	until := time.Now().Add(3 * ttl)
	redistest.Wait(t, "the others are renewed until the leases of the hung node are over, or lost", func() bool {
		lost = 0
		renewed := true
		for _, m := range others {
			if m.Lease().Err() != nil {
				lost++
			}
			renewed = renewed && m.Lease().Until().After(until)
		}
		return renewed || lost > 0 && time.Now().After(until)
	})
	return lost, len(others)
}

// far is a cluster whose nodes are reached through networks that the test controls.
type far struct {
	*redistest.Cluster
	networks map[string]*redistest.Proxy // by the address of the node
}

func startFar(t *testing.T) far {
	t.Helper()
	f := far{redistest.StartCluster(t), make(map[string]*redistest.Proxy)}
	for _, n := range f.Nodes {
		f.networks[n.Addr()] = n.Proxy()
	}
	return f
}

func (f far) pool(t *testing.T) *redisc.Cluster {
	p := topologies.ClusterPool(f.Addrs(), redis.DialNetDial(func(network, addr string) (net.Conn, error) {
		return net.Dial(network, f.networks[addr].Addr())
	}))
	t.Cleanup(func() { p.Close() })
	return p
}

// Two clean-ups are due on a healthy node that was unreachable for a moment: of a lock, and of a waiter that gave up. Many
// locks that could not be released on a hung node come before them.
func TestClusterCleansUpOnAHealthyNodeWhateverHasToWaitForAHungOne(t *testing.T) {
	const (
		locks   = 300
		timeout = 200 * time.Millisecond
		slow    = 20 * time.Second // what a busy machine may take for what should take some milliseconds
	)
	f := startFar(t)
	client := redimutex.NewClient([]redimutex.Pool{f.pool(t)},
		redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(timeout))
	t.Cleanup(func() { client.Close() }) // Close can't clean up on a hung node
	const healthy = 1
	keys := keysOf(healthy, 2)
	node := f.Nodes[healthy]
	held, wanted := client.Mutex(keys[0]), client.Mutex(keys[1], redimutex.WithQueue())
	require.NoError(t, held.LockContext(patience(t), 0))
	var lost []*redimutex.Mutex
	for _, key := range keysOf(0, locks) {
		m := client.Mutex(key)
		require.NoError(t, m.LockContext(patience(t), 0))
		lost = append(lost, m)
	}
	node.Do("SET", keys[1], "a foreign client", "PX", 600_000)
	waiting, giveUp := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- wanted.LockContext(waiting, 0) }()
	queued := func() bool {
		return slices.ContainsFunc(node.Keys(), func(name string) bool { return node.Do("TYPE", name) == "zset" })
	}
	redistest.Wait(t, "the waiter is in the queue", queued)

	hang(t, f.Cluster, 0)
	var group sync.WaitGroup
	for _, m := range lost {
		group.Go(func() { assert.Error(t, m.UnlockContext(t.Context())) })
	}
	group.Wait()

	network := f.networks[node.Addr()]
	network.Hold(redistest.Requests)
	require.ErrorIs(t, held.UnlockContext(t.Context()), redimutex.ErrUnavailable)
	giveUp()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	<-time.After(10 * timeout) // so that the first try of each clean-up has failed
	network.Break()            // what was sent is lost
	network.Release()
	start := time.Now()
	redistest.Wait(t, "the lock is released", func() bool { return !node.Exists(keys[0]) })
	assert.Less(t, time.Since(start), slow, "for the lock that could not be unlocked")
	redistest.Wait(t, "the queue is left", func() bool { return !queued() })
	assert.Less(t, time.Since(start), slow, "for the waiter that gave up")
}
