package redimutex

import "context"

// TryLock tries once to lock m, without waiting, and reports whether it succeeded. It logs errors
// other than that another process holds the lock.
func (m *exclusive) TryLock() bool {
	return m.tried("TryLock", m.TryLockContext(context.Background()))
}

// TryLockContext tries once to lock m. It does not wait for another holder, nor for a goroutine of
// this process that waits for the lock already; the try itself takes one node timeout at most. In the
// moment when another goroutine of this process gives up waiting, it may find the lock held though it
// is free. So it may with several servers where others try at the same moment: none has a majority
// if they split the votes. The errors are those of [Mutex.LockContext].
func (m *exclusive) TryLockContext(ctx context.Context) error {
	_, err := m.acquire(ctx, true)
	return err
}

// TryAcquire tries once to lock m, as [Mutex.TryLockContext] does, with its errors, and returns the hold.
func (m *exclusive) TryAcquire(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, true)
}

// TryDo tries once to lock m. If that succeeds it runs f and unlocks m, as [Mutex.Do] does;
// otherwise it returns the error of [Mutex.TryLockContext].
func (m *exclusive) TryDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.do(ctx, f, true)
}
