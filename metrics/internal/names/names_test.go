package names_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/metrics/internal/names"
)

func TestAWaitIsCalledAfterWhatTheCallerWouldDoAboutIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cut := redistest.NewBetween(s.Pool())
	client := redimutex.NewClient([]redimutex.Pool{cut})
	s.Do("SET", "foreign", "token", "PX", 60_000)
	s.Do("LPUSH", "list", "x")
	try := func(key string) error { return client.Mutex(key).TryLockContext(t.Context()) }
	cancelled, cancel := context.WithCancelCause(t.Context())
	// This wait ends because another lock was lost. That says nothing about this lock.
	cancel(&redimutex.LostError{Key: "outer", Reason: redimutex.Closed})

	assert.Equal(t, names.Acquired, names.OfWait(try("free")))
	assert.Equal(t, names.Locked, names.OfWait(try("foreign")))
	assert.Equal(t, names.Locked, names.OfWait(client.Mutex("foreign").LockContext(t.Context(), time.Second)))
	assert.Equal(t, names.Cancelled, names.OfWait(client.Mutex("foreign").LockContext(cancelled, 0)))
	assert.Equal(t, names.Cancelled, names.OfWait(context.DeadlineExceeded))
	if s.IsReal() { // miniredis reports the error in other words
		assert.Equal(t, names.Refused, names.OfWait(try("list")))
	}
	cut.Set(redistest.Cut)
	assert.Equal(t, names.Unavailable, names.OfWait(try("other")))
	assert.NoError(t, client.Close())
	assert.Equal(t, names.Closed, names.OfWait(try("other")))
	assert.Equal(t, names.Failed, names.OfWait(errors.New("something else")))
}

func TestAHoldIsCalledAfterWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	lost := fmt.Errorf("wrapped: %w", &redimutex.LostError{Key: "k", Reason: redimutex.Taken})
	assert.Equal(t, names.Released, names.OfHold(nil))
	assert.Equal(t, names.Lost, names.OfHold(lost))
	assert.Equal(t, names.Unreleased, names.OfHold(redimutex.ErrUnavailable))
	assert.Equal(t, "taken", names.OfLoss(lost))
	assert.Empty(t, names.OfLoss(redimutex.ErrUnavailable))
}

func TestAnyBytesBecomeText(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "k\uFFFD", names.Clean("k\xff\xfe"))
	assert.Equal(t, "Schlüssel", names.Clean("Schlüssel"))
}
