package security_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// names are keys that a user may choose. Some look like the keys that stand beside another lock.
var names = []string{
	"a", "{a}", "a:fence", "{a}:fence", "{a}:fence.", "a:queue", "{a}:queue", "{a}:queue.", "b{a}", "{a}b", "{}a", "a{}", "}a{", "a}", "{a",
	"{{a}}", "fence:a", "fence:{a}", "queue:{a}", "{a}:fence:fence", "redimutex", "ä ö", "a\nb", "\x00\xff",
}

// enough is a node timeout that is longer than the machine needs for anything here.
var enough = redimutex.WithNodeTimeout(4 * time.Second)

func TestLocksOfAllNamesAreHeldAtOnce(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redimutex.Option{
		"fencing": {redimutex.WithFencing()}, "queue": {redimutex.WithQueue()},
		"both": {redimutex.WithFencing(), redimutex.WithQueue()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := newClient(t, s.Pool(), append(opts, enough)...)
			order := slices.Clone(names)
			for round := range 2 { // the first round leaves fence counters for the second
				slices.Reverse(order)
				var held []*redimutex.Mutex
				for _, k := range order {
					m := c.Mutex(k)
					if assert.NoError(t, m.TryLockContext(t.Context()), "nobody holds %q, in round %d", k, round) {
						held = append(held, m)
					}
				}
				for _, m := range held {
					assert.NoError(t, m.UnlockContext(t.Context()), "nobody but us holds %q", m.Key())
				}
				for _, k := range names {
					n, err := redis.Int(s.Do("EXISTS", k), nil)
					require.NoError(t, err)
					assert.Zero(t, n, "%q was unlocked", k)
					s.Do("DEL", k)
				}
			}
		})
	}
}

// contend makes one process hold the lock of key and another wait for it. So all keys that belong to the lock exist until the
// test calls end.
func contend(t *testing.T, s *redistest.Server, key string) (holder *redimutex.Mutex, siblings []string, end func()) {
	t.Helper()
	opts := []redimutex.Option{redimutex.WithFencing(), redimutex.WithQueue(), enough, redimutex.WithTTL(time.Minute)}
	before := s.Keys()
	holder = newClient(t, s.Pool(), opts...).Mutex(key)
	require.NoError(t, holder.LockContext(t.Context(), time.Minute))
	waiting := make(chan error, 1)
	waiter := newClient(t, s.Pool(), opts...).Mutex(key)
	go func() {
		err := waiter.LockContext(t.Context(), time.Minute)
		if err == nil {
			err = waiter.UnlockContext(t.Context())
		}
		waiting <- err
	}()
	redistest.Wait(t, "a fence counter and a queue stand beside the lock", func() bool {
		siblings = slices.DeleteFunc(s.Keys(), func(k string) bool { return k == key || slices.Contains(before, k) })
		return len(siblings) == 2
	})
	return holder, siblings, func() {
		t.Helper()
		require.NoError(t, holder.UnlockContext(t.Context()))
		require.NoError(t, <-waiting)
	}
}

func TestWhatStandsBesideALockIsInItsSlotAndNobodysLock(t *testing.T) {
	t.Parallel()
	s, node := redistest.Start(t), redistest.Real(t, "--cluster-enabled", "yes")
	taken := map[string]string{}
	for _, key := range names {
		_, siblings, end := contend(t, s, key)
		for _, sibling := range siblings {
			assert.Equal(t, node.Do("CLUSTER", "KEYSLOT", key), node.Do("CLUSTER", "KEYSLOT", sibling), "%q beside %q", sibling, key)
			assert.Panics(t, func() { redimutex.New(s.Pool(), sibling) }, "%q is no name for a lock: it stands beside that of %q", sibling, key)
			assert.Empty(t, taken[sibling], "%q stands beside that of %q as well", sibling, key)
			taken[sibling] = key
		}
		end()
		s.Do("FLUSHALL")
	}
}

func TestUnlockDeletesTheLockWhateverStandsBesideIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, siblings, end := contend(t, s, "k")
	end()
	s.Do("FLUSHALL")
	for name, opts := range map[string][]redimutex.Option{
		"fencing": {redimutex.WithFencing()}, "queue": {redimutex.WithQueue()},
		"both": {redimutex.WithFencing(), redimutex.WithQueue()},
		"all":  {redimutex.WithFencing(), redimutex.WithQueue(), redimutex.WithLeaseReuse(time.Millisecond)},
	} {
		m := newClient(t, s.Pool(), append(opts, enough)...).Mutex("k")
		require.NoError(t, m.LockContext(t.Context(), time.Minute))
		for _, sibling := range siblings {
			s.Do("DEL", sibling)
			s.Do("HSET", sibling, "field", "value")
		}
		assert.NoError(t, m.UnlockContext(t.Context()), name)
		assert.Eventually(t, func() bool { return !slices.Contains(s.Keys(), "k") }, 5*time.Second, 5*time.Millisecond,
			"%s: the lock is gone, and not only when its TTL is over", name)
		s.Do("FLUSHALL")
	}
}
