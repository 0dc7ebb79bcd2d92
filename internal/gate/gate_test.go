package gate_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/gate"
)

// has reports whether w has the turn.
func has(w *gate.Waiter) bool {
	select {
	case <-w.Turn():
		return true
	default:
		return false
	}
}

func TestAFreeGateGivesTheTurnAtOnce(t *testing.T) {
	var g gate.Gate
	require.True(t, g.TryEnter())
	assert.False(t, g.TryEnter(), "the turn was given twice")
	g.Leave()
	w := g.Join(nil)
	require.True(t, has(w))
	assert.False(t, g.TryEnter())
	g.Leave()
	assert.True(t, g.TryEnter(), "the gate is not free after the last one left")
}

func TestTheTurnGoesInOrderOfArrival(t *testing.T) {
	var g gate.Gate
	require.True(t, g.TryEnter())
	waiters := make([]*gate.Waiter, 100)
	for i := range waiters {
		waiters[i] = g.Join(nil)
	}
	for i, w := range waiters {
		require.True(t, g.Waiting())
		g.Leave()
		require.True(t, has(w), "waiter %d does not have the turn", i)
		for _, later := range waiters[i+1:] {
			require.False(t, has(later))
		}
		require.False(t, g.TryEnter(), "somebody overtook the queue")
	}
	g.Leave()
	assert.False(t, g.Waiting())
	assert.True(t, g.TryEnter())
}

func TestQuittingKeepsTheOrderOfTheOthers(t *testing.T) {
	for _, quitter := range []int{0, 1, 2, 3, 4} {
		var g gate.Gate
		require.True(t, g.TryEnter())
		var waiters []*gate.Waiter
		for range 5 {
			waiters = append(waiters, g.Join(nil))
		}
		waiters[quitter].Quit()
		for i, w := range waiters {
			if i == quitter {
				continue
			}
			g.Leave()
			require.True(t, has(w), "waiter %d after %d quit", i, quitter)
		}
		assert.False(t, has(waiters[quitter]), "the one that quit was given the turn")
		g.Leave()
		assert.True(t, g.TryEnter())
	}
}

func TestATurnThatComesWhileQuittingIsPassedOn(t *testing.T) {
	var g gate.Gate
	require.True(t, g.TryEnter())
	quitter, next := g.Join(nil), g.Join(nil)
	g.Leave()
	require.True(t, has(quitter))
	quitter.Quit()
	assert.True(t, has(next), "the turn was lost")
	g.Leave()
	assert.True(t, g.TryEnter())
}

func TestTheLastWaiterThatQuitsWithTheTurnFreesTheGate(t *testing.T) {
	var g gate.Gate
	require.True(t, g.TryEnter())
	w := g.Join(nil)
	g.Leave()
	w.Quit()
	assert.True(t, g.TryEnter())
}

func TestAShutGateSendsAllAwayWhoWait(t *testing.T) {
	var g gate.Gate
	require.True(t, g.TryEnter())
	waiting, another, quitter := g.Join(nil), g.Join(nil), g.Join(nil)
	g.Shut()
	late := g.Join(nil)
	for _, w := range []*gate.Waiter{waiting, another, late} {
		require.True(t, has(w))
		assert.True(t, w.Shut())
		assert.False(t, w.Quit(), "there was no turn to give up")
	}
	assert.False(t, quitter.Quit())
	assert.False(t, g.TryEnter(), "who has the turn keeps it")
	assert.False(t, g.Leave())
	assert.True(t, g.TryEnter())
}

func TestNextTellsWhatTheFirstWaitsFor(t *testing.T) {
	var g gate.Gate
	assert.Nil(t, g.Next())
	require.True(t, g.TryEnter())
	assert.Nil(t, g.Next(), "who has the turn does not wait")
	first := g.Join("first")
	g.Join("second")
	assert.Equal(t, "first", g.Next())
	first.Quit()
	assert.Equal(t, "second", g.Next())
	taken, waiting := g.Queued()
	assert.True(t, taken)
	assert.Equal(t, 1, waiting)
	assert.True(t, g.Leave())
	assert.Nil(t, g.Next())
}

// Who waited before, and what he waited for, is forgotten.
func TestAPlaceIsAsNewWhenItIsUsedAgain(t *testing.T) {
	var g gate.Gate
	for range 3 {
		require.True(t, g.TryEnter())
		quitter, served := g.Join("a"), g.Join("b")
		g.Leave()
		quitter.Quit() // without having received his turn
		require.True(t, has(served))
		assert.False(t, has(served), "the turn is received once")
		g.Leave()
		require.True(t, g.TryEnter())
		other := g.Join(nil)
		assert.False(t, has(other), "a turn of before was left")
		assert.Nil(t, g.Next())
		other.Quit()
		g.Leave()
	}
}

// A place that were given back twice would be given to two.
func TestNoPlaceIsGivenToTwo(t *testing.T) {
	var g gate.Gate
	require.True(t, g.TryEnter())
	w := g.Join(nil)
	g.Leave()
	require.True(t, w.Quit(), "nobody else had the turn")
	require.True(t, g.TryEnter())
	g.Leave()
	require.True(t, g.TryEnter())
	assert.NotSame(t, g.Join(nil), g.Join(nil))
}

// Waiters that quit at any moment neither lose the turn nor let two in. The counter is not atomic
// on purpose: the race detector checks that one turn happens before the next.
func TestRacingQuittersNeitherLoseTheTurnNorDoubleIt(t *testing.T) {
	const goroutines, rounds = 32, 200
	var g gate.Gate
	var all sync.WaitGroup
	turns, inside, counter := make([]int, goroutines), 0, 0
	for i := range goroutines {
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		all.Go(func() {
			for range rounds {
				w := g.Join(nil)
				patience := make(chan struct{})
				if rnd.IntN(2) == 0 {
					go func() {
						runtime.Gosched()
						close(patience)
					}()
				}
				select {
				case <-w.Turn():
					inside++
					if inside != 1 {
						t.Errorf("%d have the turn", inside)
					}
					counter++
					turns[i]++
					inside--
					g.Leave()
				case <-patience:
					w.Quit()
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
	assert.False(t, g.Waiting())
	assert.True(t, g.TryEnter(), "the turn was lost")
}

// A goroutine that waits for the turn is blocked and nothing else: no timer, no polling, or
// the bubble would not come to rest.
func TestAWaiterSleepsUntilItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate.Gate
		require.True(t, g.TryEnter())
		var order []int
		for i := range 10 {
			w := g.Join(nil)
			go func() {
				<-w.Turn()
				order = append(order, i)
				g.Leave()
			}()
		}
		synctest.Wait()
		assert.Empty(t, order)
		g.Leave()
		synctest.Wait()
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
	})
}

func TestTenThousandWaitersCostAFewHundredBytesEach(t *testing.T) {
	const n = 10_000
	var g gate.Gate
	require.True(t, g.TryEnter())
	waiters := make([]*gate.Waiter, n)
	goroutines := runtime.NumGoroutine()
	before := heap()
	for i := range waiters {
		waiters[i] = g.Join(nil)
	}
	each := (heap() - before) / n
	assert.Less(t, each, int64(400), "bytes for each waiter")
	assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	for _, w := range waiters {
		g.Leave()
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
	var g gate.Gate
	b.ReportAllocs()
	for b.Loop() {
		if !g.TryEnter() {
			b.Fatal("not free")
		}
		g.Leave()
	}
}
