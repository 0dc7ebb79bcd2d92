package quorum_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const (
	ttl     = 10 * time.Second
	timeout = 500 * time.Millisecond
)

func request(key string) *server.Request {
	return &server.Request{Key: key, Token: uuid.NewString(), TTL: ttl, Timeout: timeout}
}

// A cluster is N independent servers in a bubble of virtual time, where everything takes no time
// at all unless a test says otherwise.
type cluster struct {
	t     *testing.T
	nodes []*miniredis.Miniredis
	paths []*redistest.Between // to each of them
	q     *quorum.Quorum
}

func virtual(t *testing.T, n int, test func(*testing.T, *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t}
		var pools []server.Pool
		for range n {
			m, pool := redistest.Virtual(t)
			path := redistest.NewBetween(pool)
			c.nodes, c.paths, pools = append(c.nodes, m), append(c.paths, path), append(pools, path)
		}
		c.q = quorum.New(pools)
		require.Equal(t, n, c.q.Size())
		c.warm()
		test(t, c)
		c.q.Close(time.Minute)
	})
}

// warm lets the servers learn the scripts, and us their clocks.
func (c *cluster) warm() {
	for _, fencing := range []bool{false, true} {
		r := request("warm")
		r.Fencing = fencing
		g, err := c.q.Acquire(c.t.Context(), r)
		require.NoError(c.t, err)
		synctest.Wait()
		require.NoError(c.t, c.q.Release(c.t.Context(), r, g))
		synctest.Wait()
	}
	for _, m := range c.nodes {
		m.FlushAll()
	}
}

// on sets what comes between us and the servers with these numbers.
func (c *cluster) on(what redistest.Interception, nodes ...int) {
	for _, i := range nodes {
		c.paths[i].Set(what)
	}
}

// hung is a server that does not answer.
func hung(func() (any, error), string, []any) (any, error) {
	time.Sleep(timeout)
	return nil, os.ErrDeadlineExceeded
}

// cut is a server that can't be reached.
func cut(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut }

// slow is a server that is far away.
func slow(d time.Duration) redistest.Interception {
	return func(run func() (any, error), _ string, _ []any) (any, error) {
		time.Sleep(d / 2)
		defer time.Sleep(d / 2)
		return run()
	}
}

// says is a server that refuses.
func says(err error) redistest.Interception {
	return func(func() (any, error), string, []any) (any, error) { return nil, err }
}

// set gives a key to somebody on the servers with these numbers.
func (c *cluster) set(key, token string, nodes ...int) {
	for _, i := range nodes {
		require.NoError(c.t, c.nodes[i].Set(key, token))
		c.nodes[i].SetTTL(key, ttl)
	}
}

// holders counts the servers on which the token has the key.
func (c *cluster) holders(r *server.Request) (n int) {
	for _, m := range c.nodes {
		if v, err := m.Get(r.Key); err == nil && v == r.Token {
			n++
		}
	}
	return n
}

func failure(t *testing.T, err error, kind quorum.Kind) *quorum.Failure {
	t.Helper()
	var f *quorum.Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, kind, f.Kind, "%v", err)
	return f
}
