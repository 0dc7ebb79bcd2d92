package inspect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// search finds all locks of a server, in order.
func search(t *testing.T, node *server.Server, pattern string, all bool) (locks []string, f *inspect.Search) {
	t.Helper()
	f = inspect.Find(node, pattern, all)
	for !f.Done {
		found, err := f.Next(t.Context(), 10*time.Second)
		require.NoError(t, err)
		locks = append(locks, found...)
	}
	slices.Sort(locks)
	return slices.Compact(locks), f
}

func TestSearchFindsLocksAndNothingElse(t *testing.T) {
	t.Parallel()
	s, node := start(t)
	c := s.Pool().Get()
	defer c.Close()
	for i := range 1500 {
		require.NoError(t, c.Send("SET", fmt.Sprint("page:", i), "a cached page", "PX", 60000))
	}
	_, err := c.Do("")
	require.NoError(t, err)
	s.Do("SET", "for ever", uuid.NewString())
	s.Do("SETNX", "by SETNX", "worker 9")
	s.Do("HSET", "hash", "field", "value")
	s.Do("SET", "long", strings.Repeat("x", 1000), "PX", 60000)
	grant(s, "lock:ours", tokenA)
	s.Do("SET", "lock:plain", tokenC, "PX", 60000)
	s.Do("SET", "lock:redsync", "9HrBA1BqmdGOBrF8xKmY4g==", "PX", 60000)
	s.Do("SET", "lock:by hand", "worker 7", "PX", 60000)
	enqueue(s, "lock:by hand", tokenB, "channel")
	s.Do("SET", "fenced by hand", "worker 8", "PX", 60000)
	s.Do("SET", server.FenceKey("fenced by hand"), 1, "PX", 60000)

	want := []string{"fenced by hand", "lock:by hand", "lock:ours", "lock:plain", "lock:redsync"}
	locks, f := search(t, node, "", false)
	assert.Equal(t, want, locks)
	assert.Greater(t, f.Seen, 1500)
	assert.Zero(t, f.Refused)

	locks, _ = search(t, node, "lock:*", false)
	assert.Equal(t, want[1:], locks)

	locks, _ = search(t, node, "", true)
	assert.Len(t, locks, 1500+len(want)+2)
	assert.Contains(t, locks, "for ever")
	assert.Contains(t, locks, "by SETNX", "a lock made by hand has no TTL")
	assert.NotContains(t, locks, "long")
}

func TestSearchDoesNotTakeAFenceForALock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	keys := []string{"a", "{a}", "{a}b", "b{a}", "}", "a}", "{}", "{a}:fence", "{1}:fence:a.", "a:fence"}
	s.Do("SET", "redimutex:guard", tokenA, "PX", 60000)
	for _, key := range keys {
		s.Do("SET", server.FenceKey(key), "f47ac10b-58cc-4372-a567-0e02b2c3d479", "PX", 60000)
	}
	locks, _ := search(t, server.New(s.Pool()), "", true)
	assert.Empty(t, locks)
}

func TestSearchFindsSemaphoresAndReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := s.Pool()
	free, err := redimutex.NewSemaphore(pool, "downloads", 2, redimutex.WithTTL(time.Minute)).Acquire(t.Context())
	require.NoError(t, err)
	defer free.Release(t.Context())
	m := redimutex.NewRWMutex(pool, "report", redimutex.WithTTL(time.Minute))
	m.RLock()
	defer m.RUnlock()
	s.Do("ZADD", "board", 100, "a player")
	s.Do("PEXPIRE", "board", 60000)
	s.Do("SET", "star", "*", "PX", 60000)
	s.Do("HSET", "hash", "field", "value")
	s.Do("PEXPIRE", "hash", 60000)
	locks, f := search(t, server.New(pool), "", false)
	assert.Equal(t, []string{"downloads", "report"}, locks)
	assert.Zero(t, f.Refused)
}
