// Package security_test tests what docs/security.md promises: permissions that are enough and not too much, no password or
// token in a log or an error, and keys that are what their user named, whatever other keys there are.
package security_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	newClient = locktest.Client
	newMutex  = locktest.Mutex
)

// An eavesdropper hears everything that a program may reveal: what is logged, and the errors that it gets.
type eavesdropper struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (e *eavesdropper) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(p)
}

// hear records an error in all the ways in which a program might print it or a part of it.
func (e *eavesdropper) hear(err error) {
	if err == nil {
		return
	}
	fmt.Fprintf(e, "%v\n%+v\n%#v\n%q\n", err, err, err, err)
	switch under := err.(type) { //nolint:errorlint // the errors that it wraps are heard as well
	case interface{ Unwrap() []error }:
		for _, err := range under.Unwrap() {
			e.hear(err)
		}
	default:
		e.hear(errors.Unwrap(err))
	}
}

// hearAll records errors, and other values that a program might print.
func (e *eavesdropper) hearAll(values ...any) {
	for _, v := range values {
		if err, ok := v.(error); ok {
			e.hear(err)
		} else {
			fmt.Fprintf(e, "%v %+v %#v\n", v, v, v)
		}
	}
}

func (e *eavesdropper) heard() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.String()
}

func (e *eavesdropper) logger() redimutex.Option {
	return redimutex.WithLogger(slog.New(slog.NewTextHandler(e, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true})))
}

// options makes a Client report to the eavesdropper.
func (e *eavesdropper) options() []redimutex.Option {
	hear := func(event redimutex.Event) { e.hear(event.Err) }
	return []redimutex.Option{
		e.logger(),
		redimutex.WithTrace(&redimutex.Trace{Attempt: hear, GaveUp: hear, Renewed: hear, Released: hear, Lost: hear}),
	}
}
