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

// cancelledUnlock unlocks with a ctx that has ended, over connections that have to be made first.
func cancelledUnlock(s *evidence.Scene) {
	servers, dialers := start(s, 3)
	var took stats.Times
	ours := evidence.Figure{Library: evidence.Ours}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for q := s.Quota(3, 50); q.More(); q.Done++ {
		for _, f := range all {
			f.cold = q.Done%2 == 0
			s.Round(func(t testing.TB) {
				m := f.client(t, dialers, minorityTTL).Mutex("cancelled")
				if err := m.LockContext(s.Context(), forever); err != nil {
					t.Fatal(err)
				}
				if !f.cold {
					killClients(servers) // so no connection that the Client has kept is of use
				}
				began := time.Now()
				err := m.UnlockContext(ended)
				gone := goneSoon(servers[:f.servers], m.Key())
				took = append(took, time.Since(began))
				held := gone && (err == nil || errors.Is(err, redimutex.ErrUnavailable)) && (!s.Long || took[len(took)-1] <= time.Second)
				if ours.Count(held); !held {
					s.Note("With %s: gone %v, and Unlock said: %v.", f.name, gone, err)
				}
			})
		}
	}
	ours.Worst = fmt.Sprintf("gone after %v at most, limit 1 s", evidence.Millis(took.Worst()))
	s.Figure(ours)
	for _, p := range bothPeers(dialers[:1], minorityTTL, 5*time.Second, true) {
		compare(s, p, func(_ testing.TB, l peers.Library, f *evidence.Figure) {
			keys := []string{p.name + " 0", p.name + " 1", p.name + " 2", p.name + " 3", p.name + " 4"}
			for _, key := range keys {
				slot := l.Slot(key)
				s.Must(slot.TryLock(context.Background()))
				killClients(servers[:1])
				_ = slot.Unlock(ended)
			}
			time.Sleep(time.Second) // the time that the table gives
			for _, key := range keys {
				f.Count(!servers[0].Exists(key))
			}
			f.Worst = fmt.Sprintf("%d keys left after 1 s", f.Tried-f.Held)
		})
	}
}

// killClients closes all connections to the servers, except those of replicas and subscribers.
func killClients(servers []*redistest.Server) {
	for _, s := range servers {
		s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
}

// goneSoon reports whether none of the servers has the key, now or some time later; see soon.
func goneSoon(servers []*redistest.Server, key string) bool {
	return soon(func() bool {
		return !slices.ContainsFunc(servers, func(s *redistest.Server) bool { return s.Exists(key) })
	})
}

// soon reports whether ok returns true, now or within forever. The longer that takes, the less often it calls ok.
func soon(ok func() bool) bool {
	end, pause := time.Now().Add(forever), time.Millisecond
	for !ok() {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
		pause = min(2*pause, 10*time.Millisecond)
	}
	return true
}
