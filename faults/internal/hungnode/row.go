// Package hungnode has one node of a Cluster hang while one process holds thousands of locks on all of them.
package hungnode

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mna/redisc"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/topologies"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{{
		ID: 28, Name: "cluster-hang",
		Fault: "one node of a Cluster hangs, with thousands of leases on all nodes",
		Must:  "no lease on a healthy node is lost; all on the hung one are told",
		Short: 15 * time.Second, Long: 90 * time.Second,
		Run: run,
	}}
}

// A size is how many leases there are, and for how long.
type size struct {
	leases int
	ttl    time.Duration
	ttls   int // how many TTLs the node hangs for, at least
}

var (
	small = size{leases: 1000, ttl: 8 * time.Second, ttls: 2}
	large = size{leases: 10_000, ttl: 10 * time.Second, ttls: 4}
)

const (
	hung  = 0 // the primary that hangs, with its replica, which would take its place
	slots = 16384
)

// A report is what became of the leases.
type report struct {
	size
	healthy, lost    int // leases on healthy nodes
	behind, told     int // leases on the hung node
	locking, hanging time.Duration
	tries, failed    int // of locks on healthy nodes meanwhile
	slowest          time.Duration
	late             time.Duration // the longest that a goroutine of ours overslept meanwhile
}

// A machine that lets us wait for so long can let ten thousand leases run out by itself. The scene is played again then, a
// few times.
const (
	starved  = 100 * time.Millisecond
	attempts = 3
)

func run(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
	size := small
	if s.Long {
		size = large
		size.ttls = max(size.ttls, int((s.Time-30*time.Second)/size.ttl))
	}
	var before []string
	for attempt := 1; ; attempt++ {
		r := report{size: size}
		if err := evidence.Stage(ctx, func(t testing.TB) { r.play(ctx, t, s) }); err != nil {
			return evidence.Result{}, err
		}
		res := r.result()
		if r.lost == 0 || r.late < starved || attempt == attempts || ctx.Err() != nil {
			res.Notes = append(res.Notes, before...)
			return res, ctx.Err()
		}
		before = append(before, fmt.Sprintf("Played again, because the machine had a goroutine wait for %v. %d of %d leases on healthy nodes were lost then.",
			r.late.Round(time.Millisecond), r.lost, r.healthy))
	}
}

// node returns which node of a cluster that has just been started serves a key.
func node(key string) int {
	n := 0
	for redisc.Slot(key) >= (n+1)*slots/3 {
		n++
	}
	return n
}

func (r *report) play(ctx context.Context, t testing.TB, s evidence.Setup) {
	cluster := redistest.StartCluster(t)
	pool := topologies.ClusterPool(cluster.Addrs())
	client := redimutex.NewClient([]redimutex.Pool{pool},
		redimutex.WithTTL(r.ttl), redimutex.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { client.Close(); pool.Close() })
	began := time.Now()
	held := r.lock(ctx, t, client)
	r.locking = time.Since(began)
	for _, n := range []int{hung + 3, hung} {
		cluster.Nodes[n].Pause()
	}
	began = time.Now()
	// A lease of a healthy node that is valid longer than this was renewed until the node had hung for so long.
	until := began.Add(time.Duration(r.ttls)*r.ttl + r.ttl/2)
	stop := r.pass(ctx, client)
	_, r.late = redistest.Overrun(0, func() {
		for time.Now().Before(until) && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
			if s.Report != nil {
				s.Report(int(time.Since(began)/time.Millisecond), int(until.Sub(began)/time.Millisecond))
			}
		}
	})
	stop()
	r.hanging = time.Since(began)
	for _, m := range held {
		gone := m.Lease().Err() != nil
		switch {
		case node(m.Key()) == hung:
			r.behind++
			if gone {
				r.told++
			}
		default:
			r.healthy++
			if gone {
				r.lost++
			}
		}
	}
	for _, n := range []int{hung + 3, hung} {
		cluster.Nodes[n].Resume()
	}
}

// lock takes all the locks.
func (r *report) lock(ctx context.Context, t testing.TB, client *redimutex.Client) []*redimutex.Mutex {
	t.Helper()
	held := make([]*redimutex.Mutex, r.leases)
	const workers = 8
	errs := make([]error, workers)
	var team sync.WaitGroup
	for w := range workers {
		team.Go(func() {
			for i := w; i < r.leases && errs[w] == nil; i += workers {
				held[i] = client.Mutex(fmt.Sprint("key ", i))
				errs[w] = held[i].LockContext(ctx, time.Minute)
			}
		})
	}
	team.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return held
}

// pass takes locks on healthy nodes, one after the other, until stop is called.
func (r *report) pass(ctx context.Context, client *redimutex.Client) (stop func()) {
	var over atomic.Bool
	var team sync.WaitGroup
	team.Go(func() {
		for i := 0; !over.Load() && ctx.Err() == nil; i++ {
			m := client.Mutex(fmt.Sprint("another ", i))
			if node(m.Key()) == hung {
				continue
			}
			began := time.Now()
			err := m.TryLockContext(ctx)
			if err == nil {
				err = m.UnlockContext(ctx)
			}
			r.tries++
			if err != nil {
				r.failed++
			}
			r.slowest = max(r.slowest, time.Since(began))
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() {
		over.Store(true)
		team.Wait()
	}
}

func (r *report) result() evidence.Result {
	return evidence.Result{
		Figures: []evidence.Figure{
			{
				Library: evidence.Ours + ", leases on healthy nodes", Held: r.healthy - r.lost, Tried: r.healthy,
				Worst: fmt.Sprintf("%d lost in %v, with a TTL of %v", r.lost, r.hanging.Round(100*time.Millisecond), r.ttl),
			},
			{
				Library: evidence.Ours + ", leases on the hung node", Held: r.told, Tried: r.behind,
				Worst: fmt.Sprintf("%d not told that they are lost", r.behind-r.told),
			},
			{
				Library: evidence.Ours + ", locks on healthy nodes meanwhile", Held: r.tries - r.failed, Tried: r.tries, NotJudged: true,
				Worst: fmt.Sprintf("%d failed, TryLock and Unlock took %v at most", r.failed, r.slowest.Round(100*time.Microsecond)),
			},
		},
		Notes: []string{fmt.Sprintf("One process took the %d locks in %v. The replica of the node that hangs is stopped as well; it would take over.",
			r.leases, r.locking.Round(100*time.Millisecond)) +
			fmt.Sprintf(" A goroutine overslept by %v at most.", r.late.Round(100*time.Microsecond))},
	}
}
