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

func lateReplyRow() evidence.Row {
	return played(evidence.Row{
		ID: 14, Name: "late-reply", Fault: "reply later than the lease", Must: "never a success",
		Short: 10 * time.Second, Long: time.Minute,
	}, lateReplies)
}

// shortTTL is that of locks whose replies come after more than half of it, up to twice.
const shortTTL = 300 * time.Millisecond

func lateReplies(r *run) {
	servers, _ := start(r, 3)
	var mu sync.Mutex
	delay := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return r.between(shortTTL/2, 2*shortTTL)
	}
	held, tried := 0, 0
	for round := 0; r.more(round, 3, 20); round++ {
		r.Round(func(t testing.TB) {
			proxies, through := proxied(t, servers)
			var mutexes []*redimutex.Mutex
			for _, f := range all {
				for i := range 5 {
					c := f.client(t, through, shortTTL, redimutex.WithNodeTimeout(shortTTL*19/20))
					m := c.Mutex(fmt.Sprintf("%d %s %d", round, f.name, i))
					warm(t, c.Mutex(m.Key()+" before"), true)
					mutexes = append(mutexes, m)
				}
			}
			for _, p := range proxies {
				p.Treat(func(reply bool) redistest.Treatment {
					if reply {
						return redistest.Treatment{Delay: delay()}
					}
					return redistest.Treatment{}
				})
			}
			var each sync.WaitGroup
			var wins []string
			for i, m := range mutexes {
				each.Go(func() {
					err := lockOnce(m, i%2 == 0)
					mu.Lock()
					defer mu.Unlock()
					tried++
					if err != nil {
						held++
					} else {
						wins = append(wins, m.Key())
					}
				})
			}
			each.Wait()
			if len(wins) > 0 {
				r.Note("Locked although the reply came late: %q.", wins)
			}
		})
	}
	r.Figure(evidence.Figure{
		Library: evidence.Ours, Held: held, Tried: tried, Worst: fmt.Sprintf("%d successes", tried-held),
	})
	r.Note("Replies come after half the TTL to twice of it. Already at half of it a lock is refused, since half of its validity has to be left when Lock returns.")
	proxies, through := proxied(r, servers[:1])
	r.compare(bothPeers(through, shortTTL, 5*time.Second, false), func(t testing.TB, name string, l peers.Library) (held, tried int, worst string) {
		works(t, l, name)
		proxies[0].Treat(func(reply bool) (delayed redistest.Treatment) {
			if reply {
				delayed.Delay = shortTTL * 3 / 2
			}
			return delayed
		})
		defer proxies[0].Treat(nil)
		for tried = 0; tried < 3; tried++ {
			if l.Slot(fmt.Sprintf("%s %d", name, tried)).TryLock(context.Background()) != nil {
				held++
			}
		}
		return held, tried, fmt.Sprintf("%d successes with replies after one and a half TTLs", tried-held)
	})
}

// lockOnce tries by one of the two verbs, which ask the server in different ways.
func lockOnce(m *redimutex.Mutex, waiting bool) error {
	if waiting {
		return m.LockContext(context.Background(), shortTTL*3/4)
	}
	return m.TryLockContext(context.Background())
}
