package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestACorruptCounterIsAnErrorAndNoLock(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := request("k")
	q.Fence = server.NextFence
	for _, counter := range []string{"rubbish", "nan", "inf", "9007199254740991", "99999999999999999999"} {
		r.Do("SET", server.FenceKey("k"), counter)
		failed(t, acquire(s, q))
		assert.False(t, r.Exists("k"), counter)
	}
}

// Above 2^53-1, Lua would give the next hold the same fence, or a lower one.
func TestAFenceRisesAsFarAsLuaCounts(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := request("k")
	q.Fence = server.NextFence
	r.Do("SET", server.FenceKey("k"), "9007199254740990")
	reply := acquire(s, q)
	done(t, reply)
	assert.Equal(t, int64(1<<53-1), reply.Fence)
}

func TestARaiseNeverLowersAFence(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := request("k")
	for _, fence := range []int64{10, 5} {
		done(t, raise(s, q, fence))
		assert.Equal(t, "10", r.Get(server.FenceKey("k")))
	}
}

// The clock was set back, or the fence came from another server. If the counter expired early, the next fence would be lower.
func TestACounterStaysUntilTheClockIsPastItsFence(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(t *testing.T, s *server.Server, q *hold, fence int64){
		"a lock": func(*testing.T, *server.Server, *hold, int64) {},
		"a reader": func(t *testing.T, s *server.Server, q *hold, _ int64) {
			done(t, release(s, q))
			q.Kind, q.Want, q.Fence = server.Reader, "r", server.LastFence
			done(t, acquire(s, q))
		},
		"a renewal":        func(t *testing.T, s *server.Server, q *hold, _ int64) { done(t, one(s, q)) },
		"a raise":          func(t *testing.T, s *server.Server, q *hold, fence int64) { done(t, raise(s, q, fence+1)) },
		"a needless raise": func(t *testing.T, s *server.Server, q *hold, fence int64) { done(t, raise(s, q, fence)) },
	} {
		virtual(t, func(t *testing.T, m *miniredis.Miniredis, _ *redistest.Between, s *server.Server) {
			began := time.Now()
			lock := func() (*hold, int64) {
				q := request("k")
				q.Fence = server.NextFence
				reply := acquire(s, q)
				done(t, reply)
				return q, reply.Fence
			}
			m.SetTime(began)
			q, first := lock()
			done(t, release(s, q))
			m.SetTime(began.Add(-24 * time.Hour))
			q, second := lock()
			use(t, s, q, second)
			m.FastForward(2 * time.Hour)
			m.SetTime(began.Add(-22 * time.Hour))
			_, third := lock()
			assert.Greater(t, second, first, name)
			assert.Greater(t, third, second, "after %s, and two hours without one", name)
			m.FastForward(24 * time.Hour)
			assert.Empty(t, m.Keys(), "%s left a counter that does not expire", name)
		})
	}
}

// The clock was an hour ahead when the server began, and is right now. Or another client has overwritten the mark.
func TestAGuardedServerWhoseMarkIsNoTimeInThePastAbstainsForOneTTL(t *testing.T) {
	t.Parallel()
	for _, mark := range []any{time.Now().Add(time.Hour).UnixMicro(), "x", ""} {
		r, s := start(t)
		q := request("k")
		q.Guard, q.TTL = true, 500*time.Millisecond
		r.Do("SET", "redimutex:guard", mark)
		began := time.Now()
		require.ErrorContains(t, acquire(s, q).Err, "votes again in 500 ms", mark)
		redistest.Wait(t, "the server votes", func() bool { return acquire(s, q).Verdict == server.Done })
		assert.GreaterOrEqual(t, time.Since(began), q.TTL)
	}
}

func TestAKeptLockStaysForNoLessThanAsked(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, _ *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		q.Keep = 5*time.Millisecond + 999*time.Microsecond
		done(t, release(s, q))
		assert.Equal(t, 6*time.Millisecond, m.TTL("k"))
	})
}

func TestAUserWithoutGetrangeCanLock(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	r := redistest.Start(t)
	r.SetUser("u", "on", ">p", "~*", "&*", "+@all", "-getrange")
	s := open(t, r.Pool(redis.DialUsername("u"), redis.DialPassword("p")))
	for _, queue := range []bool{false, true} {
		q := request("k")
		q.Queue, q.Fence = queue, server.NextFence
		assert.Equal(t, server.Missing, release(s, q).Verdict)
		done(t, acquire(s, q))
		assert.Equal(t, server.Held, acquire(s, request("k")).Verdict)
		done(t, one(s, q))
		done(t, release(s, q))
	}
}

// With fewer replicas than min-replicas-to-write, Redis 5.0 refuses single commands, but lets scripts write.
func TestAPlainTryThatIsRefusedForWantOfReplicasIsFollowedByAScript(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		b.Set(func(command redistest.Command) (any, error) {
			if command.Name == "SET" {
				return nil, redis.Error("NOREPLICAS Not enough good replicas to write.")
			}
			return command.Run()
		})
		done(t, acquire(s, request("warm")))
		q := request("k")
		q.Try.Plain = true
		done(t, acquire(s, q))
		assert.True(t, m.Exists("k"))
		time.Sleep(q.Timeout + time.Second)
		assert.True(t, m.Exists("k"), "and nothing takes it back")
		other := request("k")
		other.Try.Plain = true
		assert.Equal(t, q.Token, acquire(s, other).Holder)
		done(t, release(s, q))
	})
}

func TestABatchGetsAReplyForEachLease(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	var batch []*hold
	var want []server.Verdict
	for i := range 300 {
		q := request(string(rune('a'+i%26)) + time.Duration(i).String())
		batch = append(batch, q)
		switch i % 3 {
		case 0:
			want = append(want, server.Missing)
		case 1:
			want = append(want, server.Done)
			done(t, acquire(s, q))
		case 2:
			want = append(want, server.Taken)
			done(t, acquire(s, request(q.Key)))
		}
	}
	for i, got := range extend(s, batch) {
		require.NoError(t, got.Err)
		require.Equal(t, want[i], got.Verdict, "lease %d", i)
	}
}

// Otherwise a holder would rely on an extension that a failover loses.
func TestNoExtensionOfABatchThatBrokeOffCountsWithoutTheReplicas(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	b := redistest.NewBetween(r.Pool())
	s := open(t, b)
	first, second := request("k1"), request("k2")
	done(t, acquire(s, first))
	done(t, acquire(s, second))
	done(t, one(s, first)) // now the server knows the script
	first.Replicas, second.Replicas = replicas(50*time.Millisecond), replicas(50*time.Millisecond)
	sent := 0
	b.Set(func(command redistest.Command) (any, error) {
		if strings.HasPrefix(command.Name, "EVAL") {
			if sent++; sent == 2 {
				return nil, redistest.ErrCut
			}
		}
		return command.Run()
	})
	for _, reply := range extend(s, []*hold{first, second}) {
		failed(t, reply)
	}
	assert.Equal(t, 4, sent, "they go again over another connection")
}

func fenceIf(fencing bool) server.Fence {
	if fencing {
		return server.NextFence
	}
	return server.NoFence
}
