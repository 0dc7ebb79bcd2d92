package punctual_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/punctual"
	"github.com/redimutex/redimutex/internal/redistest"
)

// An until is a ctx with a deadline and no timer of its own.
type until struct {
	context.Context
	deadline time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.deadline, true }

// BenchmarkAgainstRedigo runs commands that can be cancelled in turn with those of redigo that can't, each over a
// pool: how much more processor time ours take. The goal is 2%.
func BenchmarkAgainstRedigo(b *testing.B) {
	s := redistest.Start(b)
	timeouts := []redis.DialOption{redis.DialReadTimeout(5 * time.Second), redis.DialWriteTimeout(5 * time.Second)}
	ours := &redis.Pool{MaxIdle: 1, DialContext: punctual.NewDialer("tcp", s.Addr(), timeouts...).DialContext}
	defer ours.Close()
	bare := s.Pool(timeouts...)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	plain := func() (any, error) {
		c := bare.Get()
		defer c.Close()
		return c.Do("PING")
	}
	for name, do := range map[string]func() (any, error){
		"redigo's own DoContext": func() (any, error) {
			c := bare.Get()
			defer c.Close()
			return redis.DoContext(c, ctx, "PING")
		},
		"Do": func() (any, error) {
			c := ours.Get()
			defer c.Close()
			return c.Do("PING")
		},
		"deadline": func() (any, error) {
			c := ours.Get()
			defer c.Close()
			return redis.DoContext(c, until{context.Background(), time.Now().Add(500 * time.Millisecond)}, "PING")
		},
		"cancellable": func() (any, error) {
			c := ours.Get()
			defer c.Close()
			return redis.DoContext(c, ctx, "PING")
		},
		"cancellable, deadline": func() (any, error) {
			c := ours.Get()
			defer c.Close()
			return redis.DoContext(c, until{ctx, time.Now().Add(500 * time.Millisecond)}, "PING")
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var theirs, mine time.Duration
			for b.Loop() {
				theirs += spent(b, plain)
				mine += spent(b, do)
			}
			b.ReportMetric(float64(mine)/float64(theirs), "cpu/bare")
			b.ReportMetric(float64(mine)/float64(b.N)/float64(many), "cpu-ns/command")
		})
	}
}

const many = 200

// spent returns the processor time of a few commands, which other processes change less than the time that passes.
func spent(b *testing.B, do func() (any, error)) time.Duration {
	before := redistest.Processor(b)
	for range many {
		_, err := do()
		if err != nil {
			b.Fatal(err)
		}
	}
	return redistest.Processor(b) - before
}
