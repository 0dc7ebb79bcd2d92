package redimutex

import "context"

// TryLock tries once to lock m, without waiting, and reports whether it succeeded. It logs errors, unless another
// holder has the lock.
func (m *exclusive) TryLock() bool { return m.tried("TryLock", m.TryLockContext(context.Background())) }

// TryLockContext tries once to lock m. It does not wait for a holder, and does not overtake waiting goroutines of this
// process. It takes one node timeout at most, plus the timeout of [WithReplicas]. The errors are those of [Mutex.LockContext].
//
// It may find a free lock held while another goroutine of this process tries or gives up. With several servers, callers
// that try at the same moment may split the votes, so that none has a majority.
func (m *exclusive) TryLockContext(ctx context.Context) error {
	_, err := m.acquire(ctx, once)
	return err
}

// TryAcquire is [Mutex.TryLockContext] that returns the hold.
func (m *exclusive) TryAcquire(ctx context.Context) (*Lease, error) { return m.acquire(ctx, once) }

// TryDo is [Mutex.Do] that tries once to lock m. It returns the error of [Mutex.TryLockContext] if that fails.
func (m *exclusive) TryDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.do(ctx, f, once)
}
