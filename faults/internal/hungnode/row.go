// Package hungnode makes one node of a Cluster hang while one process holds thousands of locks on all nodes.
package hungnode

import (
	"fmt"
	"time"

	"github.com/mna/redisc"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/topologies"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{evidence.Played(evidence.Row{
		ID: 28, Name: "cluster-hang",
		Fault: "one node of a Cluster hangs, with thousands of leases on all nodes",
		Must:  "no lease on a healthy node is lost; all on the hung one are told",
		Short: 15 * time.Second, Long: 90 * time.Second,
	}, play)}
}

// A report is what became of the leases.
type report struct {
	leases, ttls int // how many leases there are, and how many TTLs the node hangs for
	ttl          time.Duration
	healthy      evidence.Figure // leases on healthy nodes that were kept
	behind       evidence.Figure // leases on the hung node whose loss was reported
	late         time.Duration   // by how much a goroutine of this process overslept at most
}

const (
	hung = 0 // the primary that hangs; its replica hangs too, because it would take over
	// A machine that delays a goroutine this long can by itself let thousands of leases expire. Then the row is played again.
	starved  = 100 * time.Millisecond
	attempts = 3
)

// behindHung reports whether the node that hangs serves a key, in a cluster that has just been started.
func behindHung(key string) bool { return redistest.Home(redisc.Slot(key)) == hung }

func play(s *evidence.Scene) {
	r := report{leases: 1000, ttl: 8 * time.Second, ttls: 2}
	if s.Long {
		r = report{leases: 10_000, ttl: 10 * time.Second, ttls: max(4, int((s.Time-30*time.Second)/(10*time.Second)))}
	}
	for attempt := 1; ; attempt++ {
		once := r
		once.play(s)
		if once.healthy.OK() || once.late < starved || attempt == attempts || s.Context().Err() != nil {
			s.Figure(once.figures()...)
			return
		}
		s.Note("Played again, because the machine had a goroutine wait for %v. %d of %d leases on healthy nodes were lost then.",
			once.late.Round(time.Millisecond), once.healthy.Tried-once.healthy.Held, once.healthy.Tried)
	}
}

func (r *report) play(s *evidence.Scene) {
	cluster := redistest.StartCluster(s)
	pool := topologies.ClusterPool(cluster.Addrs())
	client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(r.ttl), redimutex.WithLogger(peers.Quiet))
	s.Cleanup(func() { client.Close(); pool.Close() })
	held := r.lock(s, client)
	for _, n := range []int{hung + 3, hung} {
		cluster.Nodes[n].Pause()
		defer cluster.Nodes[n].Resume()
	}
	// A lease on a healthy node that is still valid after this time was renewed all the time that the other node hung.
	began, hangs := time.Now(), time.Duration(r.ttls)*r.ttl+r.ttl/2
	_, r.late = redistest.Overrun(0, func() {
		for time.Since(began) < hangs && s.Context().Err() == nil {
			evidence.Sleep(s.Context(), 100*time.Millisecond)
			s.Progress(int(time.Since(began)/time.Millisecond), int(hangs/time.Millisecond))
		}
	})
	for i, l := range held {
		if gone := l.Err() != nil; behindHung(key(i)) {
			r.behind.Count(gone)
		} else {
			r.healthy.Count(!gone)
		}
	}
}

func key(i int) string { return fmt.Sprint("key ", i) }

// lock takes all the locks.
func (r *report) lock(s *evidence.Scene, client *redimutex.Client) []*redimutex.Lease {
	held := make([]*redimutex.Lease, r.leases)
	const workers = 8
	s.SideBySide(workers, func(w int) (err error) {
		for i := w; i < r.leases && err == nil && !s.Failed(); i += workers {
			held[i], err = client.Mutex(key(i)).Acquire(s.Context())
		}
		return err
	})
	return held
}

func (r *report) figures() []evidence.Figure {
	r.healthy.Library, r.behind.Library = evidence.Ours+", leases on healthy nodes", evidence.Ours+", leases on the hung node"
	r.healthy.Worst = fmt.Sprintf("%d lost in %d TTLs of %v; a goroutine overslept by %v at most",
		r.healthy.Tried-r.healthy.Held, r.ttls, r.ttl, r.late.Round(time.Millisecond))
	r.behind.Worst = fmt.Sprintf("%d not told that they are lost", r.behind.Tried-r.behind.Held)
	return []evidence.Figure{r.healthy, r.behind}
}
