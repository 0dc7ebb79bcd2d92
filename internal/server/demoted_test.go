package server_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

const (
	readOnly   = redis.Error("READONLY You can't write against a read only replica.")
	masterDown = redis.Error("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")
)

// demote makes a replica answer the next n of these commands. It returns a counter of how many of the n are left.
func demote(b *redistest.Between, n int64, says redis.Error, commands ...string) (left *atomic.Int64) {
	left = new(atomic.Int64)
	left.Store(n)
	b.Set(func(command redistest.Command) (any, error) {
		for _, c := range commands {
			if c == command.Name && left.Add(-1) >= 0 {
				return nil, says
			}
		}
		return command.Run()
	})
	return left
}

// In Redis 5.0, a replica that serves no stale data refuses TIME too.
func TestAReplicaThatDoesNotTellTheTimeIsLeft(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		left := demote(b, 10, masterDown, "TIME")
		done(t, acquire(s, request("k")))
		assert.LessOrEqual(t, left.Load(), int64(0), "it was not asked for the time")
	})
}

// The pool can't dial, so each of its connections to the old primary has to be given up. All of them may lead there.
func TestAPoolThatCannotDialIsLeftAsOftenAsItLeadsToAReplica(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			q := request("k")
			q.Try.Plain = plain
			demote(b, 15, readOnly, "EVALSHA", "SET")
			done(t, acquire(s, q))
			demote(b, 15, readOnly, "EVAL", "EVALSHA")
			done(t, one(s, q))
			demote(b, 15, readOnly, "EVALSHA")
			done(t, release(s, q))
			assert.False(t, m.Exists("k"))
			left := demote(b, 1000, readOnly, "EVALSHA", "SET")
			failed(t, acquire(s, q))
			assert.Greater(t, left.Load(), int64(950), "there is an end")
		})
	}
}

// A refusal is not a lost reply: if the lock is missing afterwards, our release did not remove it.
func TestAReleaseThatAReplicaRefusedMayFindALoss(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		done(t, acquire(s, q))
		m.Del("k")
		demote(b, 1, readOnly, "EVALSHA")
		assert.Equal(t, server.Missing, release(s, q).Verdict)
	})
}

// A failover to a replica that has the lock must not lose the fence that was written back.
func TestReplicasConfirmAFenceThatIsRaised(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		q.Replicas = server.Replicas{N: 2, Timeout: time.Second}
		for confirmed := range int64(3) {
			b.Set(func(command redistest.Command) (any, error) {
				if command.Name == "WAIT" {
					return confirmed, nil
				}
				return command.Run()
			})
			reply := raise(s, q, 1)
			assert.Equal(t, confirmed == 2, reply.Verdict == server.Done)
		}
	})
}

func TestALockWhoseReplicasAreSilentIsNotGranted(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			done(t, acquire(s, request("other"))) // otherwise no try is plain
			q := request("k")
			q.Try.Plain, q.Replicas = plain, replicas(time.Second)
			b.Set(func(command redistest.Command) (any, error) {
				if command.Name == "WAIT" {
					time.Sleep(time.Minute)
				}
				return command.Run()
			})
			failed(t, acquire(s, q))
			assert.True(t, m.Exists("k"))
			q.Token += "next"
			assert.Equal(t, server.Held, acquire(s, q).Verdict, "they confirm nothing then")
		})
	}
}

// The server is demoted while it executes a batch.
func TestReplicasConfirmABatchOverTheConnectionThatWroteIt(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{true, false} {
		virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			first, second := request("first"), request("second")
			batch := []*hold{first, second}
			for _, q := range batch {
				done(t, acquire(s, q))
				if wanted {
					q.Replicas = replicas(time.Second)
				}
			}
			var c counter
			answer := func(command redistest.Command) (any, error) {
				if command.Name == "WAIT" {
					command.Run = func() (any, error) { return int64(1), nil }
				}
				return c.count(command)
			}
			b.Set(answer)
			for _, reply := range extend(s, batch) { // now the server knows the script
				done(t, reply)
			}
			c.take()
			b.Set(func(command redistest.Command) (any, error) {
				b.Set(answer)
				command.Run = func() (any, error) { return nil, readOnly }
				return c.count(command)
			})
			replies := extend(s, batch)
			done(t, replies[1])
			if wanted {
				failed(t, replies[0])
				require.ErrorContains(t, replies[0].Err, "READONLY")
				assert.Contains(t, c.take(), "EVAL EVALSHA WAIT")
			} else {
				done(t, replies[0])
			}
		})
	}
}
