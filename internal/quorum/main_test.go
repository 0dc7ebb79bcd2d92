package quorum_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// TestMain runs the tests, and looks for goroutines that outlive them.
func TestMain(m *testing.M) {
	errSilent = silence()
	redistest.Main(m)
}

// errSilent is what internal/server says of a server that does not answer in time.
var errSilent error

func silence() error {
	s := server.New(silentPool{})
	defer s.Close(time.Second)
	err := s.Raise(context.Background(), server.Lock{Key: "k", Token: "t", Timeout: time.Millisecond}, 1, ttl).Err
	if !server.TimedOut(err) {
		panic(fmt.Sprintf("a server that does not answer has timed out; got %v", err))
	}
	return err
}

type silentPool struct{}

func (silentPool) Get() redis.Conn { return silentConn{} }

// A silentConn is a connection to a server that never answers.
type silentConn struct{}

func (silentConn) Close() error                    { return nil }
func (silentConn) Err() error                      { return nil }
func (silentConn) Flush() error                    { return nil }
func (silentConn) Send(string, ...any) error       { return nil }
func (silentConn) Do(string, ...any) (any, error)  { return nil, os.ErrDeadlineExceeded }
func (silentConn) Receive() (reply any, err error) { return nil, os.ErrDeadlineExceeded }
func (c silentConn) ReceiveWithTimeout(time.Duration) (any, error) {
	return c.Receive()
}

func (c silentConn) DoWithTimeout(time.Duration, string, ...any) (any, error) {
	return c.Receive()
}

const (
	ttl     = 10 * time.Second
	timeout = 500 * time.Millisecond
)

func lock(key string) server.Lock {
	return server.Lock{Key: key, Token: uuid.NewString(), Timeout: timeout}
}

// try is a try for a key with a new token.
func try(key string) *server.Try { return &server.Try{Lock: lock(key), TTL: ttl} }

// releaseOf is the release of what t has taken.
func releaseOf(t *server.Try) *server.Release {
	return &server.Release{Lock: t.Lock, Queue: t.Queue, Ticket: t.Ticket, Until: time.Now().Add(t.TTL)}
}

// extending is an extension of what t has taken, and where its outcome will stand.
func extending(t *server.Try) (*quorum.Extension, *quorum.Extended) {
	out := new(quorum.Extended)
	told := false
	x := &quorum.Extension{Extension: server.Extension{Lock: t.Lock, TTL: t.TTL}}
	x.Done = func(e quorum.Extended) {
		if told {
			panic("Done was called twice")
		}
		*out, told = e, true
	}
	return x, out
}

// A cluster is N independent servers in a bubble of virtual time, where everything takes no time
// at all unless a test says otherwise.
type cluster struct {
	t     *testing.T
	nodes []*fake
	q     *quorum.Quorum
}

func virtual(t *testing.T, n int, test func(*testing.T, *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t}
		var voters []quorum.Voter
		for range n {
			f := newFake()
			c.nodes, voters = append(c.nodes, f), append(voters, f)
		}
		c.q = quorum.Of(voters...)
		require.Equal(t, n, c.q.Size())
		test(t, c)
		c.q.Close(time.Minute)
		for _, f := range c.nodes {
			require.Zero(t, f.running.Load(), "Close has left something behind")
		}
	})
}

// on sets how the servers with these numbers behave.
func (c *cluster) on(what behaviour, nodes ...int) {
	for _, i := range nodes {
		c.nodes[i].set(what)
	}
}

// set gives a key to somebody on the servers with these numbers.
func (c *cluster) set(key, token string, nodes ...int) {
	for _, i := range nodes {
		c.nodes[i].put(key, token, ttl)
	}
}

// holders counts the servers on which the token has the key.
func (c *cluster) holders(l server.Lock) (n int) {
	for _, f := range c.nodes {
		if f.get(l.Key) == l.Token {
			n++
		}
	}
	return n
}

// take acquires the lock of t on all servers.
func (c *cluster) take(t *server.Try) quorum.Grant {
	c.t.Helper()
	g, failure := c.q.Acquire(c.t.Context(), t, nil)
	won(c.t, failure)
	return g
}

func won(t *testing.T, f *quorum.Failure) {
	t.Helper()
	require.Nil(t, f, "%v", f)
}

func failed(t *testing.T, f *quorum.Failure, kind quorum.Kind) *quorum.Failure {
	t.Helper()
	require.NotNil(t, f)
	require.Equal(t, kind, f.Kind, "%v", f)
	return f
}

// goroutine names the goroutine that calls it.
func goroutine() string {
	buf := make([]byte, 64)
	name, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), " [")
	return name
}
