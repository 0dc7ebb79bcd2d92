// Package hungnode has one node of a Cluster hang while one process holds thousands of locks on all of them.
package hungnode

import (
	"fmt"
	"sync"
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
	leases, ttls  int // how many there are, and how many TTLs the node hangs for
	ttl           time.Duration
	healthy, lost int           // on healthy nodes
	behind, told  int           // on the hung node
	late          time.Duration // the longest that a goroutine of ours overslept meanwhile
}

const (
	hung  = 0 // the primary that hangs, with its replica, which would take its place
	slots = 16384
	// A machine that lets us wait for so long can let thousands of leases run out by itself. It is played again then, a few times.
	starved  = 100 * time.Millisecond
	attempts = 3
)

// behindHung reports whether the node that hangs serves a key, in a cluster that has just been started.
func behindHung(key string) bool { return redisc.Slot(key) < (hung+1)*slots/3 }

func play(s *evidence.Scene) {
	r := report{leases: 1000, ttl: 8 * time.Second, ttls: 2}
	if s.Long {
		r = report{leases: 10_000, ttl: 10 * time.Second, ttls: max(4, int((s.Time-30*time.Second)/(10*time.Second)))}
	}
	for attempt := 1; ; attempt++ {
		once := r
		once.play(s)
		if once.lost == 0 || once.late < starved || attempt == attempts || s.Context().Err() != nil {
			s.Figure(once.figures()...)
			return
		}
		s.Note("Played again, because the machine had a goroutine wait for %v. %d of %d leases on healthy nodes were lost then.",
			once.late.Round(time.Millisecond), once.lost, once.healthy)
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
	// A lease of a healthy node that is valid longer than this was renewed until the node had hung for so long.
	began, hangs := time.Now(), time.Duration(r.ttls)*r.ttl+r.ttl/2
	_, r.late = redistest.Overrun(0, func() {
		for time.Since(began) < hangs && s.Context().Err() == nil {
			evidence.Sleep(s.Context(), 100*time.Millisecond)
			s.Progress(int(time.Since(began)/time.Millisecond), int(hangs/time.Millisecond))
		}
	})
	for _, l := range held {
		gone := l.Err() != nil
		switch {
		case behindHung(l.Key()) && gone:
			r.told++
			fallthrough
		case behindHung(l.Key()):
			r.behind++
		case gone:
			r.lost++
			fallthrough
		default:
			r.healthy++
		}
	}
}

// A lease knows its key.
type lease struct {
	*redimutex.Lease
	*redimutex.Mutex
}

// lock takes all the locks.
func (r *report) lock(s *evidence.Scene, client *redimutex.Client) []lease {
	held := make([]lease, r.leases)
	const workers = 8
	var team sync.WaitGroup
	for w := range workers {
		team.Go(func() {
			for i := w; i < r.leases && !s.Failed(); i += workers {
				m := client.Mutex(fmt.Sprint("key ", i))
				l, err := m.Acquire(s.Context())
				if held[i] = (lease{l, m}); err != nil {
					s.Error(err)
				}
			}
		})
	}
	team.Wait()
	if s.Failed() {
		s.FailNow()
	}
	return held
}

func (r *report) figures() []evidence.Figure {
	return []evidence.Figure{
		{
			Library: evidence.Ours + ", leases on healthy nodes", Held: r.healthy - r.lost, Tried: r.healthy,
			Worst: fmt.Sprintf("%d lost in %d TTLs of %v; a goroutine overslept by %v at most", r.lost, r.ttls, r.ttl, r.late.Round(time.Millisecond)),
		},
		{
			Library: evidence.Ours + ", leases on the hung node", Held: r.told, Tried: r.behind,
			Worst: fmt.Sprintf("%d not told that they are lost", r.behind-r.told),
		},
	}
}
