package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A hold is what a test wants from the server for one lock.
type hold struct {
	server.Terms
	Key, Token string
	Keep       time.Duration
	Extras     server.Extras
	Try        server.Try
}

// request returns a hold on key with a new token. Its timeout is longer than a slow machine needs.
func request(key string) *hold {
	return &hold{
		Terms: server.Terms{Kind: server.Mutex, Want: "m", TTL: 10 * time.Minute, Timeout: 10 * time.Second, Fence: server.NoFence},
		Key:   key, Token: uuid.NewString(),
	}
}

func (q *hold) lock() server.Lock {
	terms, extras := q.Terms, q.Extras
	return server.Lock{Terms: &terms, Key: q.Key, Token: q.Token, Extras: &extras}
}

// claim returns a new claim of the token.
func (q *hold) claim(s *server.Server) *server.Claim {
	return &server.Claim{Lock: q.lock(), Server: s}
}

func replicas(d time.Duration) server.Replicas { return server.Replicas{N: 1, Timeout: d} }

func acquire(s *server.Server, q *hold) server.Reply {
	return q.claim(s).Try(context.Background(), q.Try)
}

// held returns a claim that has got its lock.
func held(t testing.TB, s *server.Server, q *hold) *server.Claim {
	t.Helper()
	c := q.claim(s)
	done(t, c.Try(t.Context(), q.Try))
	return c
}

// unanswered returns a claim whose try has vanished on its way. As far as the claim knows, the server may still execute it.
func unanswered(t testing.TB, b *redistest.Between, s *server.Server, q *hold) *server.Claim {
	t.Helper()
	c := q.claim(s)
	swallow(b, "EVALSHA")
	failed(t, c.Try(t.Context(), q.Try))
	return c
}

// foreign returns a claim of a token that another process has taken.
func foreign(s *server.Server, q *hold) *server.Claim {
	c := q.claim(s)
	c.Given()
	return c
}

// release releases the lock of the token, whatever is known of it.
func release(s *server.Server, q *hold) server.Reply {
	var keep time.Time
	if q.Keep > 0 {
		keep = time.Now().Add(q.Keep)
	}
	return foreign(s, q).Release(context.Background(), time.Now(), keep)
}

func releaseLater(s *server.Server, q *hold) {
	foreign(s, q).ReleaseLater(time.Time{})
}

func raise(s *server.Server, q *hold, fence int64) server.Reply {
	l := q.lock()
	return s.Raise(context.Background(), &l, fence, l.Timeout)
}

// extend extends a batch and returns its replies. Each of them has to be reported exactly once.
func extend(s *server.Server, batch []*hold) []server.Reply {
	extensions := make([]server.Extension, len(batch))
	for i, q := range batch {
		extensions[i] = server.Extension{Claim: foreign(s, q), TTL: q.TTL}
	}
	var mu sync.Mutex
	replies, times := make([]server.Reply, len(batch)), make([]int, len(batch))
	s.Extend(context.Background(), time.Now(), extensions, func(i int, r server.Reply) {
		mu.Lock()
		defer mu.Unlock()
		replies[i] = r
		times[i]++
	})
	for i, n := range times {
		if n != 1 {
			panic(fmt.Sprintf("lease %d was reported %d times", i, n))
		}
	}
	return replies
}

// lengthen extends one claim.
func lengthen(s *server.Server, c *server.Claim, ttl time.Duration) (reply server.Reply) {
	s.Extend(context.Background(), time.Now(), []server.Extension{{Claim: c, TTL: ttl}}, func(_ int, r server.Reply) { reply = r })
	return reply
}

// one extends a single lease.
func one(s *server.Server, q *hold) server.Reply { return extend(s, []*hold{q})[0] }

// open returns the Server behind pool, and closes it at the end of the test.
func open(t testing.TB, pool server.Pool) *server.Server {
	s := server.New(pool)
	t.Cleanup(func() { s.Close(time.Second) })
	return s
}

func start(t testing.TB) (*redistest.Server, *server.Server) {
	r := redistest.Start(t)
	return r, open(t, r.Pool())
}

// get reads a key as the command line does. The value is nil if the key is missing.
func get(s *server.Server, key string, timeout time.Duration) (value any, err error) {
	return s.Session(context.Background(), timeout, key).Do("GET", key)
}

// done fails the test unless the server did what it was asked.
func done(t testing.TB, reply server.Reply) {
	t.Helper()
	require.NoError(t, reply.Err)
	require.Equal(t, server.Done, reply.Verdict)
}

// failed fails the test unless the server refused or gave no answer.
func failed(t testing.TB, reply server.Reply) {
	t.Helper()
	require.Equal(t, server.Failed, reply.Verdict)
	require.Error(t, reply.Err)
}
