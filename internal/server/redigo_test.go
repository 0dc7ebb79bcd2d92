package server

import (
	"context"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// Both are over at the same time: redigo chooses at random which of them it sees first.
func TestAPoolThatIsClosedWhenTheTimeIsOverIsNoPanic(t *testing.T) {
	pool := &redis.Pool{MaxActive: 1, Wait: true, Dial: redistest.Start(t).Pool().Dial}
	get := getter(pool)
	c, err := get(t.Context())
	require.NoError(t, err)
	c.Close()
	require.NoError(t, pool.Close())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		_, err := get(ended)
		assert.Error(t, err)
	}
}
