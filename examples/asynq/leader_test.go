package asynq

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestOnlyTheLeaderEnqueues(t *testing.T) {
	s := redistest.Start(t)
	opt := asynq.RedisClientOpt{Addr: s.Addr()}
	inspector := asynq.NewInspector(opt)
	defer inspector.Close()
	enqueued := func() int {
		info, err := inspector.GetQueueInfo("default")
		if err != nil {
			return 0 // there is no queue yet
		}
		return info.Pending
	}
	var started atomic.Int64

	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	var candidates []*election.Election
	for _, name := range []string{"a", "b", "c"} {
		client := redimutex.NewClient([]redimutex.Pool{s.Pool()})
		defer client.Close()
		e := election.New(client, "scheduler", name)
		candidates = append(candidates, e)
		go func() {
			over <- Schedule(ctx, e, opt, func(s *asynq.Scheduler) error {
				started.Add(1)
				_, err := s.Register("@every 1s", asynq.NewTask("report", nil))
				return err
			})
		}()
	}
	leader := func() int { return slices.IndexFunc(candidates, (*election.Election).IsLeader) }
	redistest.Wait(t, "a task is enqueued", func() bool { return enqueued() > 0 })
	first := leader()
	assert.EqualValues(t, 1, started.Load(), "one of three runs its scheduler")
	candidates[first].Resign()
	redistest.Wait(t, "another leads", func() bool { l := leader(); return l >= 0 && l != first })
	before := enqueued()
	redistest.Wait(t, "the other enqueues", func() bool { return enqueued() > before })
	assert.EqualValues(t, 2, started.Load())
	cancel()
	for range candidates {
		require.ErrorIs(t, <-over, context.Canceled)
	}
}
