package load

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestALedgerSeesWhatMustNotBe(t *testing.T) {
	s := redistest.Start(t)
	client := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithFencing())
	defer client.Close()
	lease := func(key string) *redimutex.Lease {
		l, err := client.Mutex(key).Acquire(t.Context())
		require.NoError(t, err)
		return l
	}
	a, b := lease("a"), lease("b") // the Ledger is told that both have the same key
	for name, c := range map[string]struct {
		first, second  Hold
		clashes, falls int
	}{
		"two holders":             {Hold{Keys: []string{"k"}}, Hold{Keys: []string{"k"}}, 1, 0},
		"of other keys":           {Hold{Keys: []string{"k"}}, Hold{Keys: []string{"l"}}, 0, 0},
		"of a key of several":     {Hold{Keys: []string{"k", "l"}}, Hold{Keys: []string{"l"}}, 1, 0},
		"two readers":             {Hold{Keys: []string{"k"}, Reads: true}, Hold{Keys: []string{"k"}, Reads: true}, 0, 0},
		"a reader and a writer":   {Hold{Keys: []string{"k"}, Reads: true}, Hold{Keys: []string{"k"}}, 1, 0},
		"two permits":             {Hold{Keys: []string{"k"}, Permits: 2}, Hold{Keys: []string{"k"}, Permits: 2}, 0, 0},
		"one permit too many":     {Hold{Keys: []string{"k"}, Permits: 1}, Hold{Keys: []string{"k"}, Permits: 1}, 1, 0},
		"a fence that falls":      {Hold{Keys: []string{"k"}, Reads: true, Lease: b}, Hold{Keys: []string{"k"}, Reads: true, Lease: a, Asked: time.Now().Add(time.Hour)}, 0, 1},
		"one of a lock before it": {Hold{Keys: []string{"k"}, Reads: true, Lease: b}, Hold{Keys: []string{"k"}, Reads: true, Lease: a}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var l Ledger
			if c.first.Lease == nil {
				c.first.Lease, c.second.Lease = a, b
			}
			l.Begin(&c.first)
			l.Begin(&c.second)
			sums := l.Sums()
			assert.Equal(t, c.clashes, sums.Clashes)
			assert.Equal(t, c.falls, sums.Falls)
			l.End(&c.first)
			l.End(&c.second)
			assert.Empty(t, l.alive)
		})
	}
}

func TestAllKindsAreUsed(t *testing.T) {
	s := redistest.Start(t)
	client := redimutex.NewClient([]redimutex.Pool{s.Pool()})
	defer client.Close()
	var l Ledger
	k := NewKinds(&l, client, "{x}", rand.New(rand.NewPCG(1, 2)), time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		k.Run(ctx, func(err error) { t.Error(err) })
	}()
	redistest.Wait(t, "some holds", func() bool { return l.Sums().Holds > 100 })
	stop()
	<-over
	sums := l.Sums()
	assert.Zero(t, sums.Clashes+sums.Falls, sums.First)
	assert.Positive(t, sums.Fences)
}
