package server_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestEveryReplyToATry(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	first, second := request("k"), request("k")

	before := time.Now()
	got := acquire(s, first)
	done(t, got)
	assert.Zero(t, got.Fence)
	assert.False(t, got.Sent.Before(before))
	assert.False(t, got.Sent.After(time.Now()))
	assert.Equal(t, first.Token, r.Get("k"), "the value of the key is the plain token")
	assert.Greater(t, pttl(t, r, "k"), 30*time.Second)
	assert.LessOrEqual(t, pttl(t, r, "k"), time.Minute)

	got = acquire(s, second)
	require.Equal(t, server.Held, got.Verdict)
	assert.Equal(t, first.Token, got.Holder)
	assert.Greater(t, got.Left, 30*time.Second)
	r.Do("PEXPIRE", "k", 1000)
	done(t, acquire(s, first))
	assert.Greater(t, pttl(t, r, "k"), 30*time.Second, "a repeated try that finds its own token takes the lock again")

	r.Do("SET", "k", "foreign")
	got = acquire(s, second)
	require.Equal(t, server.Held, got.Verdict)
	assert.Equal(t, "foreign", got.Holder)
	assert.Negative(t, got.Left, "a key without a TTL")

	r.Do("DEL", "k")
	done(t, acquire(s, second))
}

// Redis 5.0 with fewer replicas than min-replicas-to-write refuses single commands, and lets scripts write.
func TestAPlainTryThatIsRefusedForWantOfReplicasIsFollowedByAScript(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		b.Set(func(run func() (any, error), command string, _ []any) (any, error) {
			if command == "SET" {
				return nil, redis.Error("NOREPLICAS Not enough good replicas to write.")
			}
			return run()
		})
		done(t, acquire(s, request("warm")))
		q := request("k")
		q.Plain = true
		done(t, acquire(s, q))
		assert.True(t, m.Exists("k"))
		time.Sleep(q.Timeout + time.Second)
		assert.True(t, m.Exists("k"), "and nothing takes it back")
		other := request("k")
		other.Plain = true
		assert.Equal(t, q.Token, acquire(s, other).Holder)
		done(t, release(s, q))
	})
}

func TestEveryReplyToARelease(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := request("k")
	assert.Equal(t, server.Missing, release(s, q).Verdict)
	done(t, acquire(s, q))
	done(t, release(s, q))
	assert.False(t, exists(t, r, "k"))
	assert.Equal(t, server.Missing, release(s, q).Verdict, "released twice")

	done(t, acquire(s, request("k")))
	assert.Equal(t, server.Taken, release(s, q).Verdict)
	assert.True(t, exists(t, r, "k"), "the lock of another holder was deleted")
}

func TestEveryReplyToAnExtension(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := request("k")
	assert.Equal(t, server.Missing, one(s, q).Verdict)
	assert.False(t, exists(t, r, "k"), "an extension re-created a lock that was gone")

	done(t, acquire(s, q))
	q.TTL = time.Hour
	got := one(s, q)
	done(t, got)
	assert.False(t, got.Sent.IsZero())
	assert.Greater(t, pttl(t, r, "k"), 30*time.Minute)
	q.TTL = 20 * time.Second
	done(t, one(s, q))
	assert.Greater(t, pttl(t, r, "k"), 30*time.Minute, "an extension took back what an earlier one gave")

	other := request("k")
	assert.Equal(t, server.Taken, one(s, other).Verdict)
	assert.Greater(t, pttl(t, r, "k"), 30*time.Minute, "the TTL of another holder's lock was moved")
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

// Some keys of a batch may be wrong; that must not spoil the others.
func TestOneBadKeyDoesNotSpoilABatch(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	good, bad := request("good"), request("bad")
	done(t, acquire(s, good))
	r.Do("RPUSH", "bad", "element")
	replies := extend(s, []*hold{bad, good, bad})
	done(t, replies[1])
	for _, i := range []int{0, 2} {
		assert.Equal(t, server.Taken, replies[i].Verdict)
	}
}

func TestForgottenScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	forget := func() { r.Do("SCRIPT", "FLUSH") }
	var batch []*hold
	for range 20 {
		q := request("k" + request("").Token)
		batch = append(batch, q)
		forget()
		done(t, acquire(s, q))
	}
	forget()
	for _, reply := range extend(s, batch) {
		done(t, reply)
	}
	forget()
	done(t, release(s, batch[0]))
	fenced := request("fenced")
	fenced.Fence = server.NextFence
	forget()
	done(t, raise(s, fenced, 7))
	forget()
	for _, q := range batch[1:] {
		releaseLater(s, q)
	}
	redistest.Wait(t, "all locks are undone", func() bool { return len(r.Keys()) == 1 })
}

func TestOwnerIsTheLabelOfOurTokensOnly(t *testing.T) {
	t.Parallel()
	id := "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
	for token, want := range map[string]string{
		id + server.OwnerMark + "host 1": "host 1",
		id:                               "",
		"foreign token":                  "",
		"":                               "",
	} {
		assert.Equal(t, want, server.Owner(token), "%q", token)
	}
}

func fenceIf(fencing bool) server.Fence {
	if fencing {
		return server.NextFence
	}
	return server.NoFence
}
