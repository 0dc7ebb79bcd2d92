package punctual_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/punctual"
)

// handOver stands between the method and the pool, as a function of another package does.
//
//go:noinline
func handOver[F any](f F) F { return f }

type embedding struct{ *punctual.Dialer }

type dialler interface {
	DialContext(context.Context) (redis.Conn, error)
}

func TestAPoolIsPunctualOnlyByTheMethodsOfADialer(t *testing.T) {
	d := punctual.NewDialer("tcp", "localhost:1")
	hand := handOver(d.DialContext)
	for name, p := range map[string]*redis.Pool{
		"method":        {DialContext: d.DialContext},
		"other dialer":  {DialContext: punctual.NewDialer("unix", "/s").DialContext},
		"with a test":   {DialContext: d.DialContext, TestOnBorrowContext: d.TestIdle},
		"handed over":   {DialContext: hand, TestOnBorrowContext: handOver(d.TestIdle)},
		"limits":        {DialContext: d.DialContext, Wait: true, MaxActive: 1, IdleTimeout: 1, MaxConnLifetime: 1},
		"and Dial":      {DialContext: d.DialContext, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", "localhost:1") }},
		"embedded":      {DialContext: embedding{d}.DialContext}, // the compiler takes the method of the field
		"by expression": {DialContext: func() func(context.Context) (redis.Conn, error) { e := d; return e.DialContext }()},
	} {
		assert.True(t, punctual.Pool(p), name)
	}
	for name, p := range map[string]*redis.Pool{
		"nil":             nil,
		"empty":           {},
		"Dial":            {Dial: func() (redis.Conn, error) { return d.DialContext(t.Context()) }},
		"wrapper":         {DialContext: func(ctx context.Context) (redis.Conn, error) { return d.DialContext(ctx) }},
		"expression":      {DialContext: func(ctx context.Context) (redis.Conn, error) { return (*punctual.Dialer).DialContext(d, ctx) }},
		"by an interface": {DialContext: dialler(d).DialContext},
		"redigo":          {DialContext: func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", "localhost:1") }},
		"TestOnBorrow":    {DialContext: d.DialContext, TestOnBorrow: func(redis.Conn, time.Time) error { return nil }},
		"another test":    {DialContext: d.DialContext, TestOnBorrowContext: func(context.Context, redis.Conn, time.Time) error { return nil }},
		"wrapped test":    {DialContext: d.DialContext, TestOnBorrowContext: func(ctx context.Context, c redis.Conn, used time.Time) error { return d.TestIdle(ctx, c, used) }},
	} {
		assert.False(t, punctual.Pool(p), name)
	}
}
