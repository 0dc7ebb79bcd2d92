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

func fenceIf(fencing bool) server.Fence {
	if fencing {
		return server.NextFence
	}
	return server.NoFence
}
