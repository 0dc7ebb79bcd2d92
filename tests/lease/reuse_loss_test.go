package lease_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// keyGone is a log that passes on what it is told.
type keyGone struct{ told chan slog.Record }

func (k keyGone) Enabled(context.Context, slog.Level) bool { return true }
func (k keyGone) WithAttrs([]slog.Attr) slog.Handler       { return k }
func (k keyGone) WithGroup(string) slog.Handler            { return k }
func (k keyGone) Handle(_ context.Context, r slog.Record) error {
	k.told <- r
	return nil
}

func TestALossThatUnlockCouldNotSeeIsToldWhenTheLockIsReleasedForGood(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(s *redistest.Server){
		"deleted": func(s *redistest.Server) { s.Do("DEL", "k") },
		"taken":   func(s *redistest.Server) { s.Do("SET", "k", "foreign", "PX", 600_000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			log := keyGone{make(chan slog.Record, 10)}
			c := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithLogger(slog.New(log)),
				redimutex.WithLeaseReuse(time.Second), redimutex.WithTTL(time.Minute))
			m := c.Mutex("k")
			require.NoError(t, m.Do(t.Context(), func(context.Context) error {
				gone(s)
				return nil
			}), "it asks no server")
			r := <-log.told
			assert.Contains(t, r.Message, "lost")
			r.Attrs(func(a slog.Attr) bool {
				if a.Key == "err" {
					assert.ErrorIs(t, a.Value.Any().(error), redimutex.ErrLost)
					assert.ErrorContains(t, a.Value.Any().(error), name)
				}
				return true
			})
			assert.EqualValues(t, 1, c.Stats().LostDeleted+c.Stats().LostTaken)
		})
	}
}

func TestAnUnlockThatReleasesForGoodReportsTheLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithLeaseReuse(time.Millisecond), redimutex.WithTTL(time.Minute)).Mutex("k")
	m.Lock()
	s.Do("DEL", "k")
	began := time.Now()
	redistest.Wait(t, "the reuse to be over", func() bool { return time.Since(began) > 2*time.Millisecond })
	assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
}
