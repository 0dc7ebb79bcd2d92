package servers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/lab/stats"
	"github.com/redimutex/redimutex/internal/redistest"
)

func cancelledRow() evidence.Row {
	return evidence.Row{
		ID: 13, Name: "cancelled", Fault: "ctx cancelled, then Unlock, cold pool", Must: "key gone: 0 keys after 1 s",
		Short: 3 * time.Second, Long: time.Minute, Run: play(cancelledUnlock),
	}
}

func cancelledUnlock(r *run) {
	servers, dialers := start(r.t, 3)
	var took stats.Times
	held, tried := 0, 0
	for round := 0; r.more(round, 3, 50); round++ {
		for _, f := range all {
			f.cold = round%2 == 0
			r.round(func(t testing.TB) {
				c := f.client(t, dialers, minorityTTL)
				m := c.Mutex("cancelled")
				if err := m.LockContext(r.t.Context(), forever); err != nil {
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
					r.note(fmt.Sprintf("With %s: gone %v, and Unlock said: %v.", f.name, gone, err))
				}
			})
		}
	}
	r.figure(evidence.Figure{
		Library: evidence.Ours, Held: held, Tried: tried,
		Worst: fmt.Sprintf("gone after %s at most, limit 1 s", ms(took.Worst())),
	})
	peersCancelled(r, servers[0], dialers[:1])
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
	for {
		keys := 0
		for _, s := range servers {
			n, _ := redis.Int(s.Do("EXISTS", key), nil)
			keys += n
		}
		if keys == 0 || time.Now().After(end) {
			return keys == 0
		}
		<-time.After(time.Millisecond)
	}
}

func peersCancelled(r *run, s *redistest.Server, dialers []peers.Dialer) {
	for _, p := range bothPeers(dialers, minorityTTL, 5*time.Second, true) {
		held := 0
		const tried = 5
		for i := range tried {
			r.round(func(t testing.TB) {
				l := p.open(t).Slot(fmt.Sprintf("%s %d", p.name, i))
				if err := l.TryLock(context.Background()); err != nil {
					t.Fatal(err)
				}
				killClients([]*redistest.Server{s})
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				_ = l.Unlock(ctx)
			})
		}
		over := time.NewTimer(time.Second) // by the table
		<-over.C
		for i := range tried {
			if n, _ := redis.Int(s.Do("EXISTS", fmt.Sprintf("%s %d", p.name, i)), nil); n == 0 {
				held++
			}
		}
		r.figure(evidence.Figure{Library: p.name, Held: held, Tried: tried, Worst: fmt.Sprintf("%d keys left after 1 s", tried-held), NotJudged: true})
	}
}
