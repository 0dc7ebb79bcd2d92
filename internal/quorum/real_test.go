package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestAMajorityIsEnoughAndAMinorityIsNot(t *testing.T) {
	t.Parallel()
	for n, most := range map[int]int{3: 1, 5: 2} {
		c := start(t, n)
		others := make([]int, most)
		for i := range others {
			others[i] = i
		}
		c.on(others, "SET", "k", "another")
		l := lock("k", terms())
		v := c.take(t, l)
		assert.Equal(t, n-most, c.votes(&l))
		assert.LessOrEqual(t, v.Valid, ttl-quorum.Drift(ttl))
		won(t, release(t, v))
		c.on(others, "DEL", "k")
		c.free(t, "k")

		c.on(append(others, n-1), "SET", "k", "another", "PX", 60000)
		v, failure := c.acquire(t.Context(), lock("k", terms()))
		assert.Equal(t, "another", failed(t, failure, quorum.Contended).Holder)
		redistest.Wait(t, "the votes that it has got are given back", func() bool { return c.votes(v.Lock()) == 0 })
	}
}
