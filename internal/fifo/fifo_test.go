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
