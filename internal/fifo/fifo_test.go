package fifo_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/fifo"
)

// has reports whether w has the turn.
func has(w *fifo.Waiter) bool {
	select {
	case <-w.Granted():
		return true
	default:
		return false
	}
}

func TestAFreeQueueGivesTheTurnAtOnce(t *testing.T) {
	var q fifo.Line
	require.True(t, q.TryAcquire())
	assert.False(t, q.TryAcquire(), "the turn was given twice")
	q.Release()
	w := q.Join()
	require.True(t, has(w))
	assert.False(t, q.TryAcquire())
	q.Release()
	assert.True(t, q.TryAcquire(), "the queue is not free after the last one left")
}

func TestTheTurnGoesInOrderOfArrival(t *testing.T) {
	var q fifo.Line
	require.True(t, q.TryAcquire())
	waiters := make([]*fifo.Waiter, 100)
	for i := range waiters {
		waiters[i] = q.Join()
	}
	for i, w := range waiters {
		require.Positive(t, q.Waiting())
		q.Release()
		require.True(t, has(w), "waiter %d does not have the turn", i)
		for _, later := range waiters[i+1:] {
			require.False(t, has(later))
		}
		require.False(t, q.TryAcquire(), "a waiter was overtaken")
	}
	q.Release()
	assert.Zero(t, q.Waiting())
	assert.True(t, q.TryAcquire())
}

func TestATurnThatComesWhileQuittingIsPassedOn(t *testing.T) {
	var q fifo.Line
	require.True(t, q.TryAcquire())
	quitter, next := q.Join(), q.Join()
	q.Release()
	require.True(t, has(quitter))
	quitter.Cancel()
	assert.True(t, has(next), "the turn was lost")
	q.Release()
	assert.True(t, q.TryAcquire())
}

func TestAClosedQueueSendsAllAwayWhoWait(t *testing.T) {
	var q fifo.Line
	require.True(t, q.TryAcquire())
	waiting, another, quitter := q.Join(), q.Join(), q.Join()
	q.Close()
	late := q.Join()
	for _, w := range []*fifo.Waiter{waiting, another, late} {
		require.True(t, has(w))
		assert.True(t, w.Closed())
		assert.False(t, w.Cancel(), "there was no turn to give up")
	}
	assert.False(t, quitter.Cancel())
	assert.False(t, q.TryAcquire(), "who has the turn keeps it")
	assert.False(t, q.Release())
	assert.True(t, q.TryAcquire())
}

// Waiters that quit at any moment neither lose the turn nor let two in. The counter is not atomic
// on purpose: the race detector checks that one turn happens before the next.
func TestRacingQuittersNeitherLoseTheTurnNorDoubleIt(t *testing.T) {
	const goroutines, rounds = 32, 200
	var q fifo.Line
	var all sync.WaitGroup
	turns, inside, counter := make([]int, goroutines), 0, 0
	for i := range goroutines {
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		all.Go(func() {
			for range rounds {
				w := q.Join()
				patience := make(chan struct{})
				if rnd.IntN(2) == 0 {
					go func() {
						runtime.Gosched()
						close(patience)
					}()
				}
				select {
				case <-w.Granted():
					inside++
					if inside != 1 {
						t.Errorf("%d have the turn", inside)
					}
					counter++
					turns[i]++
					inside--
					q.Release()
				case <-patience:
					w.Cancel()
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range turns {
		sum += n
	}
	assert.Equal(t, sum, counter)
	assert.Positive(t, counter)
	assert.Zero(t, q.Waiting())
	assert.True(t, q.TryAcquire(), "the turn was lost")
}

func TestTenThousandWaitersCostAFewHundredBytesEach(t *testing.T) {
	const n = 10_000
	var q fifo.Line
	require.True(t, q.TryAcquire())
	waiters := make([]*fifo.Waiter, n)
	goroutines := runtime.NumGoroutine()
	before := heap()
	for i := range waiters {
		waiters[i] = q.Join()
	}
	each := (heap() - before) / n
	assert.Less(t, each, int64(400), "bytes for each waiter")
	assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	for _, w := range waiters {
		q.Release()
		require.True(t, has(w))
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkUncontended(b *testing.B) {
	var q fifo.Line
	b.ReportAllocs()
	for b.Loop() {
		if !q.TryAcquire() {
			b.Fatal("not free")
		}
		q.Release()
	}
}
