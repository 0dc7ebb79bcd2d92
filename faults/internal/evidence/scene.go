package evidence

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// A Scene is a row while it is played. What the row starts ends with the Scene, and what the row finds is noted in it.
type Scene struct {
	testing.TB
	Setup
	Row Row

	mu     sync.Mutex
	result Result
	struck map[string]int
}

// Played returns row with a Run that calls play. The row fails as a test does.
func Played(row Row, play func(s *Scene)) Row {
	row.Run = func(ctx context.Context, setup Setup) (Result, error) {
		s := &Scene{Setup: setup, Row: row}
		err := Stage(ctx, func(t testing.TB) {
			s.TB = t
			play(s)
			if ctx.Err() != nil {
				t.Error(context.Cause(ctx))
			}
		})
		return s.result, err
	}
	return row
}

// Figure adds a figure to the result.
func (s *Scene) Figure(figures ...Figure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Figures = append(s.result.Figures, figures...)
}

// Note adds a sentence to the report.
func (s *Scene) Note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Notes = append(s.result.Notes, fmt.Sprintf(format, args...))
}

// File adds a file that was written to Dir.
func (s *Scene) File(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Files = append(s.result.Files, name)
}

// Progress says how far the row is.
func (s *Scene) Progress(done, of int) {
	if s.Report != nil {
		s.Report(done, of)
	}
}

// Must ends the row if err is not nil.
func (s *Scene) Must(err error) {
	if err != nil {
		s.Helper()
		s.Fatal(err)
	}
}

// Random returns the random numbers for a part of the row. So parts that run side by side do not depend on each other.
func (s *Scene) Random(part int) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, uint64(part))) //nolint:gosec // it has to be repeatable
}

// Round plays f on a stage of its own, so that all that f has started is gone afterwards.
func (s *Scene) Round(f func(t testing.TB)) { s.Must(Stage(s.Context(), f)) }

// SideBySide plays n parts at the same time. When one fails the row fails.
func (s *Scene) SideBySide(n int, play func(i int) error) {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if errs[i] = play(i); errs[i] != nil {
				s.Error(errs[i])
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		s.Must(err)
	}
}

// Parts plays n parts side by side, because they mostly wait, or in the long version one after the other.
func (s *Scene) Parts(n int, play func(i int) error) {
	if !s.Long {
		s.SideBySide(n, play)
		return
	}
	for i := range n {
		s.Progress(i, n)
		s.Must(play(i))
	}
}

// A Quota says how often a part of a row is repeated. The long version goes on until it has both the repetitions and the time.
// The short version ends with either, after one repetition at least.
type Quota struct {
	Done int

	scene *Scene
	want  int
	end   time.Time
}

// Quota returns a Quota with these numbers of repetitions for the short and the long version, and with the time of the row.
func (s *Scene) Quota(short, long int) *Quota {
	q := &Quota{scene: s, want: short}
	d := s.Row.Short
	if s.Long {
		q.want, d = long, s.Row.Long
	}
	if s.Time > 0 {
		d = s.Time
	}
	q.end = time.Now().Add(d)
	return q
}

// More reports whether to go on.
func (q *Quota) More() bool {
	q.scene.Progress(min(q.Done, q.want), q.want)
	early := time.Now().Before(q.end)
	switch {
	case q.scene.Context().Err() != nil || q.scene.Failed():
		return false
	case q.scene.Long:
		return q.Done < q.want || early
	}
	return q.Done == 0 || q.Done < q.want && early
}

// Between returns a random duration.
func Between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1))
}

// Sleep waits for d, or for less if ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
