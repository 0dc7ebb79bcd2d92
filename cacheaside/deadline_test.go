package cacheaside_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cacheaside"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A command has the deadline of its ctx, and whichever of the two comes first is chance. So there are many.
func TestCallerOnAHungServerGetsTheCauseOfItsContextWhateverEndsFirst(t *testing.T) {
	s := redistest.Real(t)
	for name, pool := range map[string]redimutex.Pool{"with contexts": s.Pool(), "without": plain{s.Pool()}} {
		t.Run(name, func(t *testing.T) {
			client := redimutex.NewClient([]redimutex.Pool{pool})
			defer client.Close()
			store := cacheaside.NewRedisStore(pool, time.Hour)
			cache := cacheaside.New(client, store)
			cause := errors.New("the caller has no time left")
			s.Pause()
			defer s.Resume()
			var callers sync.WaitGroup
			for i := range 40 {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond+time.Duration(i)*5*time.Millisecond, cause)
				defer cancel()
				callers.Go(func() {
					_, err := cacheaside.Fetch(ctx, cache, fmt.Sprint("k", i), unwanted)
					assert.ErrorIs(t, err, cause)
					assert.ErrorIs(t, store.Set(ctx, "k", nil), cause)
				})
			}
			callers.Wait()
		})
	}
}
