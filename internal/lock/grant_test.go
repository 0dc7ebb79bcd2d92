package lock

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOfManyAtOnceTheHighestStays(t *testing.T) {
	for range 200 {
		var x atomic.Int64
		var all sync.WaitGroup
		for d := range time.Duration(8) {
			all.Go(func() { raise(&x, d) })
		}
		all.Wait()
		assert.Equal(t, int64(7), x.Load())
	}
}
