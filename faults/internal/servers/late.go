package servers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

// shortTTL is the TTL of locks whose replies come after more than half of it, and up to twice of it.
const shortTTL = 300 * time.Millisecond

func lateReplies(s *evidence.Scene) {
	servers, _ := start(s, 3)
	random := s.Random(0)
	var mu sync.Mutex
	delay := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return evidence.Between(random, shortTTL/2, 2*shortTTL)
	}
	ours := evidence.Figure{Library: evidence.Ours}
	for q := s.Quota(3, 20); q.More(); q.Done++ {
		s.Round(func(t testing.TB) {
			proxies, through := proxied(t, servers)
			var mutexes []*redimutex.Mutex
			for _, f := range all {
				for i := range 5 {
					c := f.client(t, through, shortTTL, redimutex.WithNodeTimeout(shortTTL*19/20))
					m := c.Mutex(fmt.Sprintf("%d %s %d", q.Done, f.name, i))
					warm(t, c.Mutex(m.Key()+" before"), true)
					mutexes = append(mutexes, m)
				}
			}
			for _, p := range proxies {
				delayed(p, delay)
			}
			var each sync.WaitGroup
			var wins []string
			for i, m := range mutexes {
				each.Go(func() {
					err := lockOnce(m, i%2 == 0)
					mu.Lock()
					defer mu.Unlock()
					if ours.Count(err != nil); err == nil {
						wins = append(wins, m.Key())
					}
				})
			}
			each.Wait()
			if len(wins) > 0 {
				s.Note("Locked although the reply came late: %q.", wins)
			}
		})
	}
	ours.Worst = fmt.Sprintf("%d successes", ours.Tried-ours.Held)
	s.Figure(ours)
	s.Note("Replies come after half the TTL to twice of it. Already at half of it a lock is refused, since half of its validity has to be left when Lock returns.")
	proxies, through := proxied(s, servers[:1])
	for _, p := range bothPeers(through, shortTTL, 5*time.Second, false) {
		compare(s, p, func(t testing.TB, l peers.Library, f *evidence.Figure) {
			works(t, l, p.name)
			delayed(proxies[0], func() time.Duration { return shortTTL * 3 / 2 })
			defer proxies[0].Treat(nil)
			for i := range 3 {
				f.Count(l.Slot(fmt.Sprintf("%s %d", p.name, i)).TryLock(context.Background()) != nil)
			}
			f.Worst = fmt.Sprintf("%d successes with replies after one and a half TTLs", f.Tried-f.Held)
		})
	}
}

// delayed makes replies come late.
func delayed(p *redistest.Proxy, by func() time.Duration) {
	p.Treat(func(reply bool) (t redistest.Treatment) {
		if reply {
			t.Delay = by()
		}
		return t
	})
}

// lockOnce makes a try by one of two verbs, which ask the server in different ways.
func lockOnce(m *redimutex.Mutex, waiting bool) error {
	if waiting {
		return m.LockContext(context.Background(), shortTTL*3/4)
	}
	return m.TryLockContext(context.Background())
}
