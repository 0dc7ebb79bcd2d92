package fifo_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/fifo"
)

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

func TestTheTurnComesInOrderOfArrival(t *testing.T) {
	var q fifo.Line
	assert.True(t, q.TryAcquire())
	waiters := []*fifo.Waiter{q.Join(), q.Join(), q.Join()}
	for i, w := range waiters {
		assert.True(t, q.Release())
		select {
		case <-w.Granted():
		default:
			t.Fatalf("another one than waiter %d has the turn", i)
		}
		assert.Equal(t, len(waiters)-1-i, q.Waiting())
	}
	assert.False(t, q.Release(), "to no waiter")
}

func TestACancelReportsWhetherTheLineIsFreeThen(t *testing.T) {
	var q fifo.Line
	first, second, third := q.Join(), q.Join(), q.Join()
	assert.Equal(t, 2, q.Waiting())
	assert.False(t, second.Cancel(), "it had no turn")
	assert.False(t, first.Cancel(), "it has passed the turn on")
	<-third.Granted()
	assert.False(t, q.TryAcquire())
	assert.True(t, third.Cancel())
	assert.False(t, q.Taken())
	assert.True(t, q.TryAcquire())
}
