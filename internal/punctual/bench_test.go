package punctual_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/punctual"
	"github.com/redimutex/redimutex/internal/redistest"
)

// BenchmarkDo compares commands that can be cancelled with those of redigo that can't, and with those of redigo
// that can, each over a pool.
func BenchmarkDo(b *testing.B) {
	s := redistest.Start(b)
	timeouts := []redis.DialOption{redis.DialReadTimeout(5 * time.Second), redis.DialWriteTimeout(5 * time.Second)}
	ours := &redis.Pool{MaxIdle: 1, DialContext: punctual.NewDialer("tcp", s.Addr(), timeouts...).DialContext}
	defer ours.Close()
	bare := s.Pool(timeouts...)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for name, do := range map[string]func() (any, error){
		"bare": func() (any, error) {
			c := bare.Get()
			defer c.Close()
			return c.Do("PING")
		},
		"redigo/cancellable": func() (any, error) {
			c := bare.Get()
			defer c.Close()
			return redis.DoContext(c, ctx, "PING")
		},
		"cancellable": func() (any, error) {
			c := ours.Get()
			defer c.Close()
			return redis.DoContext(c, ctx, "PING")
		},
		"deadline": func() (any, error) {
			c := ours.Get()
			defer c.Close()
			return redis.DoContext(c, until{ctx, time.Now().Add(500 * time.Millisecond)}, "PING")
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := do()
				require.NoError(b, err)
			}
		})
	}
}

// An until is a ctx with a deadline and no timer of its own.
type until struct {
	context.Context
	deadline time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.deadline, true }
