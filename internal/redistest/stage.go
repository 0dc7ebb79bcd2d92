package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
)

// Stage lets a program use test helpers, such as this package, outside of a test. It calls play with a testing.TB of its own,
// and cleans up afterwards. A failure becomes the error that Stage returns, a skip becomes ErrSkipped with the reason.
func Stage(ctx context.Context, play func(t testing.TB)) error {
	s := &stage{ctx: ctx}
	defer s.cleanUp()
	over := make(chan struct{})
	go func() { // Fatal ends the goroutine that calls it
		defer close(over)
		play(s)
	}()
	<-over
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// ErrSkipped is the error for something that this machine can't run.
var ErrSkipped = errors.New("skipped")

// A stage implements the part of testing.TB that redistest and testify use. The other methods panic.
type stage struct {
	testing.TB
	ctx context.Context

	mu   sync.Mutex
	err  error
	tidy []func()
}

func (s *stage) Helper()                  {}
func (s *stage) Name() string             { return "stage" }
func (s *stage) Context() context.Context { return s.ctx }
func (s *stage) Log(...any)               {}
func (s *stage) Logf(string, ...any)      {}

func (s *stage) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

func (s *stage) Error(args ...any)                 { s.fail(errors.New(fmt.Sprint(args...))) }
func (s *stage) Errorf(format string, args ...any) { s.fail(fmt.Errorf(format, args...)) }
func (s *stage) Fail()                             { s.fail(errors.New("failed")) }

func (s *stage) Fatal(args ...any) {
	s.Error(args...)
	runtime.Goexit()
}

func (s *stage) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

func (s *stage) FailNow() {
	s.Fail()
	runtime.Goexit()
}

func (s *stage) Skip(args ...any) {
	s.fail(fmt.Errorf("%w: %s", ErrSkipped, fmt.Sprint(args...)))
	runtime.Goexit()
}

func (s *stage) Skipf(format string, args ...any) { s.Skip(fmt.Sprintf(format, args...)) }

func (s *stage) SkipNow() { s.Skip("") }

func (s *stage) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

func (s *stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tidy = append(s.tidy, f)
}

func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// cleanUp runs the functions given to Cleanup, the last first, as a test does. Such a function may call Cleanup again.
func (s *stage) cleanUp() {
	for {
		s.mu.Lock()
		last := len(s.tidy) - 1
		if last < 0 {
			s.mu.Unlock()
			return
		}
		f := s.tidy[last]
		s.tidy = s.tidy[:last]
		s.mu.Unlock()
		over := make(chan struct{})
		go func() {
			defer close(over)
			f()
		}()
		<-over
	}
}
