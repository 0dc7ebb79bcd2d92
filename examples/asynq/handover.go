package asynq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redimutex/redimutex"
)

// Finish is the type of the task that finishes the work of a web request.
const Finish = "order:finish"

// A Job is the payload of the task. It contains the lock, so protect the queue as you protect the Redis of the locks.
type Job struct {
	Order string
	Lock  redimutex.Handover
}

// wait is how long it may take until a worker begins the task.
const wait = 10 * time.Minute

// Accept is the web request's part: it locks the order, and hands the lock over to the worker that gets the task. Until the
// worker is done, a second request for the same order gets [redimutex.ErrLocked].
func Accept(ctx context.Context, client *redimutex.Client, queue *asynq.Client, order string) error {
	lease, err := client.Mutex(order).TryAcquire(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx) // does nothing after HandOver
	// Work that must be done at once is done here, under the lock.
	lock, err := lease.HandOver(ctx, wait)
	if err == nil {
		err = enqueue(ctx, queue, Job{order, lock})
	}
	if err != nil { // no worker will take the lock over: take it back and unlock, even if the request is over
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		mu := client.Mutex(order)
		if takeOver(ctx, mu, lock) == nil {
			_ = mu.UnlockContext(ctx)
		}
	}
	return err
}

func enqueue(ctx context.Context, queue *asynq.Client, job Job) error {
	payload, err := json.Marshal(job)
	if err != nil {
		return err
	}
	_, err = queue.EnqueueContext(ctx, asynq.NewTask(Finish, payload), asynq.MaxRetry(3))
	return err
}

// Handler is the worker's part: it continues under the lock of the request. A task that comes a second time, or too late, does
// not run again. Nor does one whose finish failed, or whose lock was lost: asynq archives it. The fence is for the writes of
// finish; it is 0 unless the client has WithFencing.
func Handler(client *redimutex.Client, finish func(ctx context.Context, order string, fence int64) error) asynq.HandlerFunc {
	return func(ctx context.Context, task *asynq.Task) (err error) {
		var job Job
		if err := json.Unmarshal(task.Payload(), &job); err != nil {
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		}
		mu := client.Mutex(job.Order)
		switch err := takeOver(ctx, mu, job.Lock); {
		case errors.Is(err, redimutex.ErrLost):
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		case err != nil:
			return err // asynq tries again
		}
		lease := mu.Lease()
		defer func() {
			if lost := lease.Release(ctx); errors.Is(lost, redimutex.ErrLost) {
				err = errors.Join(err, lost)
			}
			if err != nil {
				err = fmt.Errorf("%w: %w", err, asynq.SkipRetry) // the Handover is used up
			}
		}()
		return finish(lease.Context(ctx), job.Order, lease.Fence())
	}
}

// takeOver repeats a TakeOver that had no answer. It uses the same Mutex, which recognises its own earlier attempt.
func takeOver(ctx context.Context, mu *redimutex.Mutex, lock redimutex.Handover) error {
	for {
		err := mu.TakeOver(ctx, lock)
		if !errors.Is(err, redimutex.ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
