package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// Otherwise a new operation would overtake the waiting one, or the waiting one would run out of time although there is room.
func TestADialThatSucceedsLetsInWhoWaitsForThePool(t *testing.T) {
	t.Parallel()
	l := &limit{running: maxStuck} // as many operations are stuck as may run
	l.stuck.Store(maxStuck)
	entered := make(chan error, 1)
	op := &operation{Context: t.Context(), server: new(Server)}
	go func() { entered <- l.enter(op, time.Now().Add(time.Hour), false) }()
	redistest.Wait(t, "one to wait", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.waiting.Len() == 1
	})
	l.probe()
	require.NoError(t, redistest.Receive(t, "its turn", entered))
}
