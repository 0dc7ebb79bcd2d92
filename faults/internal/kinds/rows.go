// Package kinds has rows in which many clients use semaphores, readers and writers, locks of several keys and hand-overs on a
// real server.
package kinds

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/faults/internal/load"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{
		evidence.Played(evidence.Row{
			ID: 30, Name: "phases", Fault: "8 readers and 4 writers want one lock all the time, in the queue and by polling",
			Must:  "a waiting reader sees one writer begin at most, a waiting writer one phase of readers",
			Short: 4 * time.Second, Long: time.Minute,
		}, phases),
		evidence.Played(evidence.Row{
			ID: 31, Name: "kinds", Fault: "all kinds of locks: server killed, stopped, full, forgetting its scripts; connections and subscribers killed; permissions taken away",
			Must:  "no overlap, no permit too many, no falling fence; all work afterwards, and nothing is left without a TTL",
			Short: 10 * time.Second, Long: 2 * time.Minute,
		}, struck),
		evidence.Played(evidence.Row{
			ID: 32, Name: "queue", Fault: "the queue of a held lock is deleted, emptied, or led by what is no waiter",
			Must:  "no waiter is left behind; no overlap",
			Short: 6 * time.Second, Long: time.Minute,
		}, spoilt),
	}
}

// ways are the ways to wait.
var ways = []struct {
	name string
	opts []redimutex.Option
}{
	{"queue", []redimutex.Option{redimutex.WithQueue()}},
	{"polling", []redimutex.Option{redimutex.WithPollInterval(5 * time.Millisecond)}},
}

func phases(s *evidence.Scene) {
	for i, way := range ways {
		var sum redistest.Phases
		for end := time.Now().Add(s.Time / time.Duration(len(ways))); ; {
			s.Round(func(t testing.TB) { phasesOnce(t, way.opts, &sum) })
			s.Progress(i*1000+int(1000-time.Until(end)*2000/max(s.Time, 1)), 1000*len(ways))
			if !time.Now().Before(end) || s.Context().Err() != nil {
				break
			}
		}
		figure := func(who, what string, w redistest.Waits) {
			s.Figure(evidence.Figure{
				Library: fmt.Sprintf("%s, %s, waits of %s", evidence.Ours, way.name, who), Held: w.N - w.Passed, Tried: w.N,
				Worst: fmt.Sprintf("%d %s at most", w.Most, what),
			})
		}
		figure("readers", "writers begin", sum.Readers)
		figure("writers", "turns of a reader between two writers", sum.Writers)
	}
	s.Note("Counted by what MONITOR tells, in the order of the server. A phase of readers is one turn of each process.")
}

// phasesOnce lets readers and writers take their turns for a while, and adds their waits to sum.
func phasesOnce(t testing.TB, opts []redimutex.Option, sum *redistest.Phases) {
	const readers, writers, each = 8, 4, 25
	server := redistest.Real(t)
	monitor := server.Monitor()
	var all sync.WaitGroup
	for i := range readers + writers {
		client := redimutex.NewClient([]redimutex.Pool{server.Pool()}, append([]redimutex.Option{
			redimutex.WithTTL(20 * time.Second), redimutex.WithNodeTimeout(5 * time.Second), redimutex.WithLogger(peers.Quiet), // marks outlast a busy machine
		}, opts...)...)
		t.Cleanup(func() { client.Close() })
		m := client.RWMutex("k")
		do := m.Do
		if i < readers {
			do = m.RDo
		}
		all.Go(func() {
			for range each {
				if err := do(t.Context(), func(ctx context.Context) error {
					evidence.Sleep(ctx, time.Millisecond)
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	one := redistest.ReadPhases(monitor.Lines())
	for _, w := range []struct{ sum, one *redistest.Waits }{{&sum.Readers, &one.Readers}, {&sum.Writers, &one.Writers}} {
		w.sum.N, w.sum.Passed, w.sum.Most = w.sum.N+w.one.N, w.sum.Passed+w.one.Passed, max(w.sum.Most, w.one.Most)
	}
}

const (
	ttl       = time.Second
	processes = 6
	patience  = time.Minute // for all kinds to work again
	enough    = 20 * ttl    // for all waiters to get the lock
)

var strikes = []evidence.Strike{
	evidence.Restart, evidence.Stop, evidence.Disconnect, evidence.Deafen,
	{Name: "SCRIPT FLUSH", Hit: func(s *redistest.Server, _ func()) { s.Do("SCRIPT", "FLUSH") }},
	{Name: "full memory", Hit: func(s *redistest.Server, wait func()) {
		s.Do("CONFIG", "SET", "maxmemory", "1")
		wait()
		s.Do("CONFIG", "SET", "maxmemory", "0")
	}},
	{Name: "permissions taken away", Hit: func(s *redistest.Server, wait func()) {
		s.Do("ACL", "SETUSER", "locks", "-eval", "-evalsha", "-set")
		wait()
		s.Do("ACL", "SETUSER", "locks", "+@all")
	}},
}

// struck makes clients use all kinds of locks while faults hit the server.
func struck(s *evidence.Scene) {
	redistest.Needs(s, redistest.ChannelRules)
	server := redistest.Real(s, "--appendonly", "yes", "--appendfsync", "always", "--user", "locks", "on", ">secret", "~*", "&*", "+@all")
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	var ledger load.Ledger
	var all sync.WaitGroup
	for i := range processes {
		pool := server.Pool(redis.DialUsername("locks"), redis.DialPassword("secret"))
		client := redimutex.NewClient([]redimutex.Pool{pool}, append([]redimutex.Option{
			redimutex.WithTTL(ttl), redimutex.WithLogger(peers.Quiet),
		}, ways[i%len(ways)].opts...)...)
		s.Cleanup(func() { client.Close() })
		k := load.NewKinds(&ledger, client, "", s.Random(i+1), 3*time.Millisecond)
		all.Go(func() { k.Run(ctx, func(error) {}) })
	}
	random := s.Random(0)
	works := func() {
		holds := ledger.Sums().Holds
		for end := time.Now().Add(patience); ledger.Sums().Holds < holds+20 && s.Context().Err() == nil; {
			if time.Now().After(end) {
				s.Fatalf("no process gets a lock any more, after %s", s.Strikes())
			}
			evidence.Sleep(ctx, time.Millisecond)
		}
	}
	works()
	for q := s.Quota(3*len(strikes), 20*len(strikes)); q.More(); q.Done++ {
		one := strikes[q.Done%len(strikes)]
		s.Struck(one.Name)
		one.Hit(server, func() { evidence.Sleep(ctx, evidence.Between(random, 0, ttl)) })
		works()
	}
	stop()
	all.Wait()
	sums := ledger.Sums()
	eternal := 0
	for _, key := range server.Keys() {
		if server.PTTL(key) == -time.Millisecond {
			eternal++
			s.Note("%q has no TTL.", key)
		}
	}
	s.Figure(
		evidence.Figure{
			Library: evidence.Ours + ", holds", Held: sums.Holds - sums.Clashes, Tried: sums.Holds,
			Worst: fmt.Sprintf("%d overlaps; no hold of any for %v at most; %s", sums.Clashes, sums.Gap.Round(10*time.Millisecond), sums.First),
		},
		evidence.Figure{
			Library: evidence.Ours + ", fences", Held: sums.Fences - sums.Falls - eternal, Tried: sums.Fences,
			Worst: fmt.Sprintf("%d fell; %d keys without a TTL", sums.Falls, eternal),
		})
	s.Note("%d of %d processes wait in the queue. All use readers and writers, a plain Mutex of the same key, several keys, hand-overs and a semaphore of %d. The faults were %s.",
		processes/2, processes, load.Permits, s.Strikes())
}
