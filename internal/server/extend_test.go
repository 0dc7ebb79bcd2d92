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
