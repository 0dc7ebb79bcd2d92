package redimutex

import "context"

// TryLock tries once to lock m, without waiting, and reports whether it succeeded. It logs errors other than [ErrLocked].
func (m *exclusive) TryLock() bool { return m.tried("TryLock", m.TryLockContext(context.Background())) }

// TryLockContext tries once to lock m. It does not wait for a holder, and does not overtake waiting goroutines of this
// process. It takes at most one node timeout, plus the timeout of [WithReplicas]. The errors are those of [Mutex.LockContext].
//
// It may report a free lock as held while another goroutine of this process tries to lock it or gives up. With several
// servers, callers that try at the same moment may split the votes, so that none has a majority.
func (m *exclusive) TryLockContext(ctx context.Context) error {
	_, err := m.acquire(ctx, tryOnce)
	return err
}

// TryAcquire is [Mutex.TryLockContext], and returns the hold.
func (m *exclusive) TryAcquire(ctx context.Context) (*Lease, error) { return m.acquire(ctx, tryOnce) }

// TryDo is [Mutex.Do], but tries to lock m only once. If that fails, it returns the error of [Mutex.TryLockContext].
func (m *exclusive) TryDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.do(ctx, f, tryOnce)
}
