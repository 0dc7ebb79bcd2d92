package server_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// An extension that is late on its connection comes after one that was sent later.
func TestALateExtensionTakesNothingBack(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		done(t, one(s, q))
		late := *q
		late.TTL = time.Second
		holdUp(b, 30*time.Millisecond)
		over := make(chan server.Reply, 1)
		go func() { over <- one(s, &late) }()
		time.Sleep(time.Millisecond)
		long := *q
		long.TTL = time.Hour
		done(t, one(s, &long))
		done(t, <-over)
		assert.Greater(t, m.TTL("k"), 30*time.Minute)
	})
}

func TestWhatWaitsForReplicasDoesNotHoldUpTheRest(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t)
	s := open(t, r.Pool())
	slow, quick := request("slow"), request("quick")
	done(t, acquire(s, slow))
	done(t, acquire(s, quick))
	slow.Replicas = replicas(2 * time.Second) // it has none
	var order []string
	var reported atomic.Int32
	s.Extend(context.Background(), time.Now(), []server.Extension{
		{Claim: s.Foreign(slow.lock()), TTL: time.Minute},
		{Claim: s.Foreign(quick.lock()), TTL: time.Minute},
	}, func(i int, r server.Reply) {
		if reported.Add(1) == 1 {
			order = append(order, []string{"slow", "quick"}[i])
		}
		if i == 0 {
			failed(t, r)
		} else {
			done(t, r)
		}
	})
	assert.Equal(t, []string{"quick"}, order)
}

func TestTheRoundTripIsKnown(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		assert.Zero(t, s.RTT())
		b.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
			time.Sleep(80 * time.Millisecond)
			return run()
		})
		for range 3 {
			q := request("k")
			done(t, acquire(s, q))
			done(t, release(s, q))
		}
		assert.Equal(t, 80*time.Millisecond, s.RTT())
	})
}

// Its data may be old, also where it has the lock for longer than is asked for.
func TestADemotedServerExtendsNothing(t *testing.T) {
	t.Parallel()
	r, nowhere := redistest.Real(t), redistest.Real(t)
	s := open(t, r.Pool())
	q := request("k")
	done(t, acquire(s, q))
	nowhere.Kill()
	r.ReplicaOf(nowhere)
	q.TTL /= 2
	for _, reply := range extend(s, []*hold{q}) {
		failed(t, reply)
		assert.ErrorContains(t, reply.Err, "READONLY")
	}
}
