package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
)

// slowThenHung has server 0 owe an answer for so long that it is left out, and then two others hang:
// now there is no majority without server 0, which is slow and no more.
func slowThenHung(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	virtual(t, 5, func(t *testing.T, c *cluster) {
		r := request("other")
		c.on(slow(100*time.Millisecond), 0)
		g, err := c.q.Acquire(t.Context(), r)
		require.NoError(t, err)
		time.Sleep(30 * time.Millisecond)
		c.on(hung, 1, 2)
		began := time.Now()
		test(t, c)
		assert.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond, "it was not left out, so nothing was shown")
		assert.Less(t, time.Since(began), timeout, "the node timeout was waited for")
		c.on(nil, 0, 1, 2)
		synctest.Wait()
		time.Sleep(timeout)
		c.q.Sweep(r, g)
	})
}

func TestASlowServerThatWasLeftOutIsAskedWhenAnotherHangs(t *testing.T) {
	t.Run("for the lock", func(t *testing.T) {
		slowThenHung(t, func(t *testing.T, c *cluster) {
			r := request("k")
			g, err := c.q.Acquire(t.Context(), r)
			require.NoError(t, err)
			c.q.Sweep(r, g)
		})
	})
	t.Run("for the release", func(t *testing.T) {
		virtual(t, 5, func(t *testing.T, c *cluster) {
			mine := request("k")
			g, err := c.q.Acquire(t.Context(), mine)
			require.NoError(t, err)
			synctest.Wait()
			other := request("other")
			c.on(slow(100*time.Millisecond), 0)
			late, err := c.q.Acquire(t.Context(), other)
			require.NoError(t, err)
			time.Sleep(30 * time.Millisecond)
			c.on(hung, 1, 2)
			began := time.Now()
			require.NoError(t, c.q.Release(t.Context(), mine, g))
			assert.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
			assert.Less(t, time.Since(began), timeout)
			c.on(nil, 0, 1, 2)
			c.q.Sweep(other, late)
			time.Sleep(ttl / 2)
			assert.Zero(t, c.holders(mine))
		})
	})
	t.Run("for an extension", func(t *testing.T) {
		virtual(t, 5, func(t *testing.T, c *cluster) {
			mine := request("k")
			g, err := c.q.Acquire(t.Context(), mine)
			require.NoError(t, err)
			synctest.Wait()
			other := request("other")
			c.on(slow(100*time.Millisecond), 0)
			late, err := c.q.Acquire(t.Context(), other)
			require.NoError(t, err)
			time.Sleep(30 * time.Millisecond)
			c.on(hung, 1, 2)
			began := time.Now()
			e := &quorum.Extension{Request: mine}
			c.q.Extend(t.Context(), []*quorum.Extension{e})
			require.NoError(t, e.Err)
			assert.Less(t, time.Since(began), timeout)
			assert.Equal(t, began.Add(ttl-quorum.Drift(ttl)), e.Until)
			c.on(nil, 0, 1, 2)
			c.q.Sweep(other, late)
			c.q.Sweep(mine, g)
		})
	})
}

// What is left out to the end of a release is given back in the background.
func TestAServerThatIsLeftOutOfAReleaseIsSwept(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		mine := request("k")
		g, err := c.q.Acquire(t.Context(), mine)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 3, c.holders(mine))
		other := request("other")
		c.on(slow(100*time.Millisecond), 0)
		late, err := c.q.Acquire(t.Context(), other)
		require.NoError(t, err)
		time.Sleep(30 * time.Millisecond)
		began := time.Now()
		require.NoError(t, c.q.Release(t.Context(), mine, g))
		assert.Zero(t, time.Since(began))
		c.on(nil, 0)
		time.Sleep(time.Second)
		assert.Zero(t, c.holders(mine))
		c.q.Sweep(other, late)
	})
}
