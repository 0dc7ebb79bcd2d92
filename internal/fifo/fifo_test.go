package fifo_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/fifo"
)

// pass passes the turn on, or leaves the Line free.
func pass(q *fifo.Line) {
	for !q.Pass() && !q.TryRelease() {
	}
}

// Waiters that quit at any moment neither lose the turn nor give it to two. The counter is deliberately not atomic: the race
// detector then checks that one turn happens before the next.
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
					pass(&q)
				case <-patience:
					if !w.Cancel() {
						pass(&q)
					}
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
		assert.True(t, q.Pass())
		select {
		case <-w.Granted():
		default:
			t.Fatalf("another one than waiter %d has the turn", i)
		}
		assert.Equal(t, len(waiters)-1-i, q.Waiting())
	}
	assert.False(t, q.Pass(), "to no waiter")
	assert.True(t, q.Taken(), "the last one keeps it")
	assert.True(t, q.TryRelease())
	assert.False(t, q.Taken())
}

func TestAWaiterThatCancelsTooLateHasTheTurn(t *testing.T) {
	var q fifo.Line
	first, second, third := q.Join(), q.Join(), q.Join()
	assert.Equal(t, 2, q.Waiting())
	assert.True(t, second.Cancel(), "it had no turn")
	assert.False(t, first.Cancel(), "it had the turn")
	assert.False(t, q.TryAcquire())
	assert.False(t, q.TryRelease(), "one waits")
	assert.True(t, q.Pass())
	<-third.Granted()
	assert.False(t, third.Cancel())
	assert.True(t, q.TryRelease())
	assert.True(t, q.TryAcquire())
}
