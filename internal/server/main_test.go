package server_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// request is about key, with a token of its own and more time than a slow machine needs.
func request(key string) *server.Request {
	return &server.Request{Key: key, Token: uuid.NewString(), TTL: time.Minute, Timeout: 10 * time.Second}
}

// open returns the Server behind pool and closes it at the end of the test.
func open(t testing.TB, pool server.Pool) *server.Server {
	s := server.New(pool)
	t.Cleanup(func() { s.Close(time.Second) })
	return s
}

func start(t testing.TB) (*redistest.Server, *server.Server) {
	r := redistest.Start(t)
	return r, open(t, r.Pool())
}

func exists(t testing.TB, r *redistest.Server, key string) bool {
	t.Helper()
	n, err := redis.Int(r.Do("EXISTS", key), nil)
	require.NoError(t, err)
	return n == 1
}

func pttl(t testing.TB, r *redistest.Server, key string) time.Duration {
	t.Helper()
	ms, err := redis.Int64(r.Do("PTTL", key), nil)
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

// one extends a single lease.
func one(s *server.Server, r *server.Request) server.Reply { return s.Extend([]*server.Request{r})[0] }

// done demands that the server did as asked.
func done(t testing.TB, reply server.Reply) {
	t.Helper()
	require.NoError(t, reply.Err)
	require.Equal(t, server.Done, reply.Verdict)
}

// failed demands that it did not answer, or said no.
func failed(t testing.TB, reply server.Reply) {
	t.Helper()
	require.Equal(t, server.Failed, reply.Verdict)
	require.Error(t, reply.Err)
}
