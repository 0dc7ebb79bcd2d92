package asynq

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestTheWorkerFinishesUnderTheLockOfTheRequest(t *testing.T) {
	s := redistest.Start(t)
	opt := asynq.RedisClientOpt{Addr: s.Addr()}
	queue := asynq.NewClient(opt)
	defer queue.Close()
	web := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithFencing(), redimutex.WithTTL(time.Minute))
	defer web.Close()
	worker := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithFencing(), redimutex.WithTTL(time.Minute))
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

func TestARequestThatEndsWhileTheQueueHangsLeavesTheOrderFree(t *testing.T) {
	for _, hangs := range []time.Duration{0, 600 * time.Millisecond} { // how long the server of the locks hangs as well
		s := redistest.Start(t)
		p := s.Proxy()
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer silent.Close()
		queue := asynq.NewClient(asynq.RedisClientOpt{Addr: silent.Addr().String(), ReadTimeout: 100 * time.Millisecond})
		defer queue.Close()
		web := redimutex.NewClient([]redimutex.Pool{p.Pool()}, redimutex.WithNodeTimeout(200*time.Millisecond))
		defer web.Close()

		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			c, err := silent.Accept()
			if hangs > 0 {
				p.Hold()
				time.AfterFunc(hangs, func() { p.Release() })
			}
			cancel()
			if err == nil {
				<-t.Context().Done()
				c.Close()
			}
		}()
		require.Error(t, Accept(ctx, web, queue, "order:7"))
		require.Error(t, ctx.Err(), "the request is over")
		assert.False(t, s.Exists("order:7"), "hangs for %v", hangs)
	}
}

func TestATaskThatLosesTheLockOrFailsIsArchivedWithItsError(t *testing.T) {
	redistest.Needs(t, redistest.ByScore) // asynq needs it
	s := redistest.Start(t)
	opt := asynq.RedisClientOpt{Addr: s.Addr()}
	queue := asynq.NewClient(opt)
	defer queue.Close()
	inspector := asynq.NewInspector(opt)
	defer inspector.Close()
	client := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithTTL(3*time.Second), redimutex.WithNodeTimeout(2*time.Second))
	defer client.Close()

	mux := asynq.NewServeMux()
	mux.Handle(Finish, Handler(client, func(ctx context.Context, order string, _ int64) error {
		if order == "order:7" {
			s.Do("DEL", order)
			<-ctx.Done()
			return nil // without a look at the reason
		}
		return assert.AnError
	}))
	server := asynq.NewServer(opt, asynq.Config{Concurrency: 2, LogLevel: asynq.FatalLevel})
	require.NoError(t, server.Start(mux))
	defer server.Shutdown()
	for order, reason := range map[string]string{"order:7": redimutex.ErrLost.Error(), "order:8": assert.AnError.Error()} {
		require.NoError(t, Accept(t.Context(), client, queue, order))
		var archived []*asynq.TaskInfo
		redistest.Wait(t, order+" is archived", func() bool {
			archived, _ = inspector.ListArchivedTasks("default")
			return len(archived) == 1
		})
		assert.Contains(t, archived[0].LastErr, reason)
		require.NoError(t, inspector.DeleteTask("default", archived[0].ID))
	}
}
