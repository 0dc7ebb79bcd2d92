package election_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/internal/redistest"
)

// kubernetes#23731: a leader whose updates failed lost the lease, saw that another had it, tried again for that reason, and
// was never told to stop.
func TestALeaderWhoseRenewalsFailStopsBeforeAnotherLeads(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	front := redistest.NewFront(t, s)
	pool, err := redimutex.NewPool("redis://" + front.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { pool.Close() })

	a := join(t, []redimutex.Pool{pool}, "a", redimutex.WithTTL(time.Second))
	lead := a.leads(t, 1)
	b := join(t, one(s), "b", redimutex.WithTTL(time.Second))
	waiting(t, s, 1)
	front.On(func(command []string) redistest.Fate {
		if strings.HasPrefix(command[0], "EVAL") || command[0] == "SET" {
			return redistest.Fate{Reply: "-ERR too many concurrent requests\r\n"}
		}
		return redistest.Fate{}
	})
	next := b.leads(t, 1)
	require.Error(t, lead.lease.Err(), "both leases are valid")
	assert.False(t, a.IsLeader())
	<-lead.ended
	require.ErrorIs(t, lead.cause, redimutex.ErrLost)
	assert.Greater(t, next.number, lead.number)

	front.On(nil) // from now on it sees that b leads, and does not lead itself
	waiting(t, s, 1)
	assert.Len(t, a.led(), 1)
	b.stop(nil)
	a.leads(t, 2)
}

// kubernetes#67651: of many candidates with short terms, two led at the same time.
func TestOfManyCandidatesWithShortTermsNoTwoLead(t *testing.T) {
	t.Parallel()
	const candidates, enough = 30, 150
	s := redistest.Start(t)
	pool := s.Pool()
	var mu sync.Mutex
	leads := make(map[*election.Election]*redimutex.Lease)
	terms := make(map[int64]bool)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute) // long enough for a slow machine
	defer stop()
	var running sync.WaitGroup
	for range candidates {
		c := newClient(t, []redimutex.Pool{pool})
		var lease *redimutex.Lease
		c.Observe(&redimutex.Trace{Acquired: func(e redimutex.Event) { lease = e.Lease }})
		e := election.New(c, key, "", redimutex.WithTTL(400*time.Millisecond),
			redimutex.WithNodeTimeout(150*time.Millisecond), redimutex.WithoutRenewal())
		running.Go(func() {
			_ = e.Run(ctx, func(ctx context.Context) error {
				mu.Lock()
				for _, other := range leads {
					if redistest.BothValid(other, lease) {
						t.Errorf("terms %d and %d are valid at once", other.Fence(), lease.Fence())
					}
				}
				assert.False(t, terms[election.Term(ctx)], "a term is there twice")
				terms[election.Term(ctx)] = true
				leads[e] = lease
				if len(terms) >= enough {
					stop()
				}
				mu.Unlock()
				switch n := rand.N(20); {
				case n == 0:
					<-ctx.Done() // the lease is over, and f goes on for a while
					time.Sleep(rand.N(50 * time.Millisecond))
				case n < 4:
					time.Sleep(rand.N(10 * time.Millisecond))
				}
				mu.Lock()
				delete(leads, e)
				mu.Unlock()
				return nil
			})
		})
	}
	running.Wait()
	assert.GreaterOrEqual(t, len(terms), enough)
}

// etcd#19597: the session of a waiting candidate dies, and it waits on although its place is gone. It never leads, or it
// believes that it leads when the candidates in front of it have gone.
func TestACandidateWhosePlaceInLineIsLostTakesAnother(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := join(t, one(s), "a")
	a.leads(t, 1)
	b := join(t, one(s), "b")
	waiting(t, s, 1)
	for range 3 {
		s.Do("DEL", "redimutex:queue:{"+key+"}")
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		s.Do("CLIENT", "KILL", "TYPE", "normal")
		waiting(t, s, 1) // while a leads
	}
	assert.Empty(t, b.led())
	assert.Len(t, a.led(), 1)
	a.stop(nil)
	lead := b.leads(t, 1)
	assert.Contains(t, s.Get(key), lead.lease.Token())
}

// client-go#1187: the function that is called when a leader stops was called for candidates that had never led.
func TestNothingIsCalledForWhoNeverLed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := join(t, one(s), "a")
	lead := a.leads(t, 1)
	b := join(t, one(s), "b")
	waiting(t, s, 1)
	b.stop(nil)
	<-b.over
	require.ErrorIs(t, b.err, context.Canceled)
	assert.Empty(t, b.led())
	assert.Zero(t, b.client.Stats().Acquired)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := election.New(newClient(t, one(s)), "another key", "c").Run(ended, func(context.Context) error {
		t.Error("f is called though the ctx had ended before")
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.NoError(t, lead.ctx.Err())
	assert.Equal(t, "a", leader(t, a.Election).Owner)
}
