package election_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Main(m, redistest.Role{Variable: processVariable, Run: stand})
}

const key = "lead"

// newClient returns a Client like that of another process.
func newClient(t testing.TB, pools []redimutex.Pool, opts ...redimutex.Option) *redimutex.Client {
	c := redimutex.NewClient(pools, opts...)
	t.Cleanup(func() { c.Close() })
	return c
}

func one(s *redistest.Server) []redimutex.Pool { return []redimutex.Pool{s.Pool()} }

// A candidate runs. Its f leads until its ctx ends or it is told to return.
type candidate struct {
	*election.Election
	name   string
	client *redimutex.Client
	leave  chan error // what f returns
	stop   context.CancelCauseFunc
	over   chan struct{}
	err    error // of Run, after over

	mu    sync.Mutex
	terms []*term
}

// A term is one call of f.
type term struct {
	number int64
	lease  *redimutex.Lease
	ctx    context.Context
	cause  error // why its ctx has ended
	ended  chan struct{}
}

// join starts a candidate with its own Client.
func join(t testing.TB, pools []redimutex.Pool, name string, opts ...redimutex.Option) *candidate {
	t.Helper()
	c := &candidate{name: name, leave: make(chan error), over: make(chan struct{})}
	var leases sync.Map
	// A busy machine is not a broken server.
	c.client = newClient(t, pools, redimutex.WithNodeTimeout(250*time.Millisecond))
	c.client.Observe(&redimutex.Trace{Acquired: func(e redimutex.Event) { leases.Store(e.Fence, e.Lease) }})
	c.Election = election.New(c.client, key, name, opts...)
	ctx, stop := context.WithCancelCause(context.Background())
	c.stop = stop
	go func() {
		defer close(c.over)
		c.err = c.Run(ctx, func(ctx context.Context) error {
			n := &term{number: election.Term(ctx), ctx: ctx, ended: make(chan struct{})}
			l, _ := leases.Load(n.number)
			n.lease = l.(*redimutex.Lease)
			c.mu.Lock()
			c.terms = append(c.terms, n)
			c.mu.Unlock()
			defer close(n.ended)
			select {
			case <-ctx.Done():
				n.cause = context.Cause(ctx)
				return ctx.Err()
			case err := <-c.leave:
				return err
			}
		})
	}()
	t.Cleanup(func() {
		stop(nil)
		<-c.over
	})
	return c
}

// led returns the terms so far.
func (c *candidate) led() []*term {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.terms)
}

// leads waits for the n-th term of c, from 1.
func (c *candidate) leads(t testing.TB, n int) *term {
	t.Helper()
	redistest.Wait(t, c.name+" leads", func() bool { return len(c.led()) >= n })
	return c.led()[n-1]
}

// waiting waits until n candidates stand in line.
func waiting(t testing.TB, s *redistest.Server, n int64) {
	t.Helper()
	redistest.Wait(t, "all candidates are in line", func() bool {
		c, _ := s.Do("ZCOUNT", "redimutex:queue:{"+key+"}", "-inf", 4e15).(int64)
		return c == n
	})
}

// leader asks who leads.
func leader(t testing.TB, e *election.Election) election.Leader {
	t.Helper()
	l, err := e.Leader(t.Context())
	require.NoError(t, err)
	return l
}

// watch collects what an observer is told.
type watch struct {
	mu   sync.Mutex
	told []election.Leader
}

func observe(t testing.TB, pools []redimutex.Pool) *watch {
	w := new(watch)
	e := election.New(newClient(t, pools), key, "")
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		for l := range e.Observe(ctx) {
			w.mu.Lock()
			w.told = append(w.told, l)
			w.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		stop()
		watching.Wait()
	})
	return w
}

// last returns the leader that was told last. Before the first one its term is -1.
func (w *watch) last() election.Leader {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.told) == 0 {
		return election.Leader{Term: -1}
	}
	return w.told[len(w.told)-1]
}
