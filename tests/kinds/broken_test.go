package kinds_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// TestBrokenConnectionsLetNoWriterInBesideAReaderAndLeaveNothing breaks all connections again and again: tries, releases
// and downgrades are left without an answer.
func TestBrokenConnectionsLetNoWriterInBesideAReaderAndLeaveNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		n := s.Network(0)
		opts = append(opts, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(2*time.Second))
		var inside, done atomic.Int64
		var group sync.WaitGroup
		for range 5 {
			m := locktest.Client(t, []redimutex.Pool{n.Pool()}, opts...).RWMutex("k")
			for range 3 {
				group.Go(func() {
					for range 25 {
						ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
						acquire := m.RAcquire
						writes := rand.IntN(3) == 0
						if writes {
							acquire = m.Acquire
						}
						if l, err := acquire(ctx); err == nil {
							if writes {
								assert.EqualValues(t, -1000, inside.Add(-1000))
								time.Sleep(rand.N(3 * time.Millisecond))
								inside.Add(1000)
								_ = l.Downgrade(t.Context())
							}
							assert.Positive(t, inside.Add(1))
							time.Sleep(rand.N(3 * time.Millisecond))
							inside.Add(-1)
							assert.NotErrorIs(t, l.Release(t.Context()), redimutex.ErrLost)
							done.Add(1)
						}
						cancel()
					}
				})
			}
		}
		over := make(chan struct{})
		go func() {
			group.Wait()
			close(over)
		}()
		for !locktest.Ended(over) {
			time.Sleep(30 * time.Millisecond)
			n.Cut()
		}
		assert.Positive(t, done.Load())
		redistest.Wait(t, "no lock and no reader to be left", func() bool { return !s.Exists("k") && !s.Exists("redimutex:readers:{k}") })
		withTTLs(t, s)
	})
}
