// Package asynq runs asynq's Scheduler on one of several machines, so that each task is enqueued only once.
package asynq

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/redimutex/redimutex/election"
)

// Schedule runs a Scheduler while e leads, until ctx ends. register adds its tasks. While no machine leads, for up to a TTL
// after the leader has crashed, nothing is enqueued. A leader that was paused for longer than its lease may enqueue one more
// tick when it wakes. If that does harm, give the task asynq.Unique.
func Schedule(ctx context.Context, e *election.Election, redis asynq.RedisConnOpt,
	register func(*asynq.Scheduler) error,
) error {
	return e.Run(ctx, func(ctx context.Context) error {
		s := asynq.NewScheduler(redis, nil)
		if err := register(s); err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		defer s.Shutdown()
		<-ctx.Done()
		return ctx.Err()
	})
}
