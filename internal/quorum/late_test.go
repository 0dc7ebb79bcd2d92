package quorum_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// A latePool hands out its connections after a while.
type latePool struct {
	server.Pool
	delay time.Duration
}

func (p latePool) Get() redis.Conn {
	<-time.After(p.delay)
	return p.Pool.Get()
}

// A server that is down answers before the others. That it can't be won any more must not hide what
// the others are about to say.
func TestDeadServerDoesNotHideWhatTheMajoritySays(t *testing.T) {
	dead := redistest.FreeAddr(t)
	down := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", dead) }}
	a, b := redistest.Start(t), redistest.Start(t)
	q := quorum.New([]server.Pool{down, a.Pool(), latePool{b.Pool(), 200 * time.Millisecond}})
	defer q.Close(time.Second)
	req := &server.Request{Key: "job", Token: "ours", TTL: time.Minute, Timeout: 20 * time.Second}

	var failure *quorum.Failure
	require.ErrorAs(t, q.Release(context.Background(), req, quorum.Grant{}), &failure)
	assert.Equal(t, quorum.Missing, failure.Kind, "a loss is told as such")

	a.Do("SET", "job", "another")
	b.Do("SET", "job", "another")
	_, err := q.Acquire(context.Background(), req)
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, quorum.Contended, failure.Kind, "a lock that a majority holds is held")
}
