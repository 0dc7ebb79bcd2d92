package asynq

import (
	"context"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestTheWorkerFinishesUnderTheLockOfTheRequest(t *testing.T) {
	s := redistest.Real(t)
	opt := asynq.RedisClientOpt{Addr: s.Addr()}
	queue := asynq.NewClient(opt)
	defer queue.Close()
	web := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithFencing())
	defer web.Close()
	worker := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithFencing())
	defer worker.Close()

	require.NoError(t, Accept(t.Context(), web, queue, "order:7"))
	require.ErrorIs(t, Accept(t.Context(), web, queue, "order:7"), redimutex.ErrLocked, "nothing comes between")

	finished := make(chan int64)
	mux := asynq.NewServeMux()
	mux.Handle(Finish, Handler(worker, func(ctx context.Context, order string, fence int64) error {
		assert.NoError(t, ctx.Err())
		assert.Equal(t, "order:7", order)
		assert.ErrorIs(t, web.Mutex(order).TryLockContext(ctx), redimutex.ErrLocked)
		finished <- fence
		return nil
	}))
	server := asynq.NewServer(opt, asynq.Config{Concurrency: 2, LogLevel: asynq.FatalLevel})
	require.NoError(t, server.Start(mux))
	defer server.Shutdown()
	assert.Positive(t, <-finished)
	redistest.Wait(t, "the order is free", func() bool { return !s.Exists("order:7") })
}
