package failure_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// newClient returns a Client that is closed at the end of the test.
func newClient(t *testing.T, pool redimutex.Pool, opts ...redimutex.Option) *redimutex.Client {
	t.Helper()
	c := redimutex.NewClient([]redimutex.Pool{pool}, opts...)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// A switchboard is the address of the present primary, as a Sentinel or a DNS name would tell it.
type switchboard struct{ addr atomic.Pointer[string] }

func (s *switchboard) to(addr string) { s.addr.Store(&addr) }

// pool returns a pool without a role check.
func (s *switchboard) pool(t *testing.T) *redis.Pool {
	p := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", *s.addr.Load()) }}
	t.Cleanup(func() { p.Close() })
	return p
}

// An eavesdropper has heard all that a program lets out: what is logged, and the errors that it gets.
type eavesdropper struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (e *eavesdropper) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(p)
}

// hear takes down an error in all the ways in which a program might print it or a part of it.
func (e *eavesdropper) hear(err error) {
	if err == nil {
		return
	}
	fmt.Fprintf(e, "%v\n%+v\n%#v\n%q\n", err, err, err, err)
	switch under := err.(type) { //nolint:errorlint // what it wraps is heard as well
	case interface{ Unwrap() []error }:
		for _, err := range under.Unwrap() {
			e.hear(err)
		}
	default:
		e.hear(errors.Unwrap(err))
	}
}

func (e *eavesdropper) heard() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.String()
}

// options has the eavesdropper listen to a Client.
func (e *eavesdropper) options() []redimutex.Option {
	hear := func(event redimutex.Event) { e.hear(event.Err) }
	return []redimutex.Option{
		redimutex.WithLogger(slog.New(slog.NewTextHandler(e, &slog.HandlerOptions{Level: slog.LevelDebug}))),
		redimutex.WithTrace(&redimutex.Trace{Attempt: hear, GaveUp: hear, Renewed: hear, Released: hear, Lost: hear}),
	}
}

// panicOf returns what f panics with, as an error; nil if it does not.
func panicOf(f func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case error:
			err = v
		default:
			err = fmt.Errorf("%v", v)
		}
	}()
	f()
	return nil
}

func exists(t *testing.T, s *redistest.Server, key string) bool {
	t.Helper()
	n, err := redis.Int(s.Do("EXISTS", key), nil)
	require.NoError(t, err)
	return n == 1
}

func never(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		t.Error("the function ran without the lock")
		return nil
	}
}
