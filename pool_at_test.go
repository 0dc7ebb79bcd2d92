package redimutex_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/punctual"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestAPoolAtAnAddressIsThatOfItsURL(t *testing.T) {
	s := redistest.Start(t)
	p := redimutex.NewPoolAt("tcp", s.Addr(), redis.DialDatabase(3))
	defer p.Close()
	assert.True(t, punctual.Pool(p))
	require.NoError(t, redimutex.New(p, "k", redimutex.WithMinHold(time.Minute)).TryDo(t.Context(), func(context.Context) error { return nil }))
	left, err := redis.Int(ask(openPool(t, s.URL()+"/3"), "PTTL", "k"))
	require.NoError(t, err)
	assert.Positive(t, left)
	other := openPool(t, s.URL())
	assert.Equal(t, []any{other.MaxIdle, other.IdleTimeout, true}, []any{p.MaxIdle, p.IdleTimeout, p.TestOnBorrowContext != nil})
}
