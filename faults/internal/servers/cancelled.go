package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/lab/stats"
	"github.com/redimutex/redimutex/internal/redistest"
)

func cancelledRow() evidence.Row {
	return played(evidence.Row{
		ID: 13, Name: "cancelled", Fault: "ctx cancelled, then Unlock, cold pool", Must: "key gone: 0 keys after 1 s",
		Short: 3 * time.Second, Long: time.Minute,
	}, cancelledUnlock)
}

func cancelledUnlock(r *run) {
	servers, dialers := start(r, 3)
	var took stats.Times
	held, tried := 0, 0
	for round := 0; r.more(round, 3, 50); round++ {
		for _, f := range all {
			f.cold = round%2 == 0
			r.Round(func(t testing.TB) {
				c := f.client(t, dialers, minorityTTL)
				m := c.Mutex("cancelled")
				if err := m.LockContext(r.Context(), forever); err != nil {
					t.Fatal(err)
				}
				if !f.cold {
					killClients(servers) // and none that it has kept is of any use
				}
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				began := time.Now()
				err := m.UnlockContext(ctx)
				gone := goneSoon(servers[:f.servers], m.Key())
				tried++
				took = append(took, time.Since(began))
				if gone && (err == nil || errors.Is(err, redimutex.ErrUnavailable)) && (!r.Long || took[len(took)-1] <= time.Second) {
					held++
				} else {
					r.Note("With %s: gone %v, and Unlock said: %v.", f.name, gone, err)
				}
			})
		}
	}
	r.Figure(evidence.Figure{
		Library: evidence.Ours, Held: held, Tried: tried,
		Worst: fmt.Sprintf("gone after %s at most, limit 1 s", ms(took.Worst())),
	})
	r.compare(bothPeers(dialers[:1], minorityTTL, 5*time.Second, true), func(_ testing.TB, name string, l peers.Library) (held, tried int, worst string) {
		for tried = 0; tried < 5; tried++ {
			slot := l.Slot(fmt.Sprintf("%s %d", name, tried))
			r.Must(slot.TryLock(context.Background()))
			killClients(servers[:1])
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = slot.Unlock(ctx)
		}
		time.Sleep(time.Second) // by the table
		for i := range tried {
			if !servers[0].Exists(fmt.Sprintf("%s %d", name, i)) {
				held++
			}
		}
		return held, tried, fmt.Sprintf("%d keys left after 1 s", tried-held)
	})
}

// killClients closes all connections of the servers that are not those of replicas or listeners.
func killClients(servers []*redistest.Server) {
	for _, s := range servers {
		s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
}

// goneSoon reports whether none of the servers has the key, now or in a while.
func goneSoon(servers []*redistest.Server, key string) bool {
	end := time.Now().Add(forever)
	for slices.ContainsFunc(servers, func(s *redistest.Server) bool { return s.Exists(key) }) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}
