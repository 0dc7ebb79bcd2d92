package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/lab/stats"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Here servers are paused: one or two of five, three of five, the only one.

// fives are the features that are tried on five servers.
var fives = []feature{
	{name: "plain", servers: 5},
	{name: "fencing", servers: 5, options: fencing},
	{name: "multiplexed", servers: 5, shared: true},
}

// pause pauses servers, and returns the function that resumes them.
func pause(servers []*redistest.Server, which ...int) (resume func()) {
	for _, i := range which {
		servers[i].Pause()
	}
	return func() {
		for _, i := range which {
			servers[i].Resume()
		}
	}
}

// cycles says how long some rounds of Lock and Unlock took.
type cycles struct {
	lock, unlock stats.Times
	failed       error
}

// cycle locks and unlocks n keys, one after the other.
func cycle(c *redimutex.Client, n int) (all cycles) {
	for i := 0; i < n && all.failed == nil; i++ {
		m := c.Mutex(fmt.Sprintf("k%d", i))
		began := time.Now()
		err := m.LockContext(context.Background(), 0)
		locked := time.Now()
		if err == nil {
			err = m.UnlockContext(context.Background())
		}
		all.lock, all.unlock, all.failed = append(all.lock, locked.Sub(began)), append(all.unlock, time.Since(locked)), err
	}
	return all
}

// within reports whether there was no error, and the p99 of Lock and of Unlock is within limit.
func (c cycles) within(limit time.Duration) bool {
	return c.failed == nil && max(c.lock.Quantile(0.99), c.unlock.Quantile(0.99)) <= limit
}

func minority(s *evidence.Scene) {
	servers, dialers := start(s, 5)
	random := s.Random(0)
	const cycled = 1000
	f := evidence.Figure{Library: evidence.Ours}
	var calm, late stats.Times
	var all cycles
	for q := s.Quota(2*len(fives), 20*len(fives)); q.More(); q.Done++ {
		which := random.Perm(5)[:1+q.Done%2]
		s.Round(func(t testing.TB) {
			c := fives[q.Done/2%len(fives)].client(t, dialers, minorityTTL)
			calm = append(calm, cycle(c, cycled/4).lock...)
			resume := pause(servers, which...)
			h := redistest.MeasureLatenessBy(evidence.NoiseStep)
			got := cycle(c, cycled)
			late = append(late, h.Naps()...)
			resume()
			held := got.within(minorityTTL / 40) // half of the node timeout: no caller waited for a paused server
			if f.Count(held); !held {
				s.Note("Round %d with %d of 5 servers paused: error %v, Lock p99 %v, Unlock p99 %v.",
					q.Done, len(which), got.failed, got.lock.Quantile(0.99), got.unlock.Quantile(0.99))
			}
			all.lock, all.unlock = append(all.lock, got.lock...), append(all.unlock, got.unlock...)
		})
	}
	noise := max(late.Quantile(0.99), calm.Quantile(0.99))
	if s.Long && !all.within(promptly+noise) {
		f.Held = 0
		s.Note("Too slow, even if %v more are granted for the noise of this machine.", noise)
	}
	f.Worst = fmt.Sprintf("Lock p99 %v, Unlock p99 %v, limit 5 ms (Lock p99 without the fault: %v)",
		evidence.Millis(all.lock.Quantile(0.99)), evidence.Millis(all.unlock.Quantile(0.99)), evidence.Millis(calm.Quantile(0.99)))
	s.Figure(f)
	s.Note("A try is a round of %d calls of Lock and Unlock with one or two servers paused. Meanwhile this machine woke "+
		"a goroutine that only looks at the clock %v late at p99. The long version adds that, or the p99 without the fault, to the limit.",
		cycled, evidence.Millis(late.Quantile(0.99)))
	compareSilence(s, servers, dialers, hour, 1, 3)
}

// compareSilence makes redsync lock while some of the servers are paused, with a ctx that ends after d.
func compareSilence(s *evidence.Scene, servers []*redistest.Server, dialers []peers.Dialer, d time.Duration, which ...int) {
	compare(s, redsyncPeer(dialers, 0, redsync.WithExpiry(minorityTTL)), func(t testing.TB, l peers.Library, f *evidence.Figure) {
		slot := l.Slot("peer")
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		defer pause(servers, which...)()
		o := await(s, t, func() error { return slot.TryLock(ctx) })
		f.Count(o.inTime(min(d, time.Second)))
		f.Worst = "Lock " + o.String()
	})
}

// calls judges calls whose ctx ends meanwhile, by when they returned and with what.
type calls struct {
	evidence.Bound
	noise   evidence.Noise
	samples []evidence.Sample // by how much they were late
	wrong   []string          // what calls returned that they must not return
}

func newCalls(noise evidence.Noise, strict bool) *calls {
	return &calls{noise: noise, Bound: evidence.Bound{Limit: overshoot, Words: "after the ctx", Strict: strict, Steps: 1, Share: 1, Slack: forever}}
}

// call calls f with a ctx that has its deadline after d or, if cancel is set, is cancelled then.
func (c *calls) call(d time.Duration, cancel bool, f func(ctx context.Context) error, check func(error) string) {
	ctx, stop := context.WithTimeout(context.Background(), d)
	if cancel {
		ctx, stop = context.WithCancel(context.Background())
		timer := time.AfterFunc(d, stop)
		defer timer.Stop()
	}
	defer stop()
	began := time.Now()
	err := f(ctx)
	over := time.Now()
	if problem := check(err); problem != "" {
		c.Unheard++
		c.wrong = append(c.wrong, problem)
		return
	}
	c.samples = append(c.samples, evidence.Sample{Took: max(over.Sub(began)-d, 0), Noise: c.noise.Worst(began, over)})
}

func (c *calls) figure() evidence.Figure {
	f := c.Figure(evidence.Ours, c.samples)
	if len(c.wrong) > 0 {
		f.Worst += "; wrong: " + strings.Join(c.wrong[:min(len(c.wrong), 5)], "; ")
	}
	return f
}

func majority(s *evidence.Scene) {
	servers, dialers := start(s, 5)
	random := s.Random(0)
	calls := newCalls(s.Noise(), s.Long)
	for q := s.Quota(2, 20); q.More(); q.Done++ {
		which := random.Perm(5)[:3]
		s.Round(func(t testing.TB) {
			for _, f := range fives {
				m := f.client(t, dialers, hour).Mutex("majority")
				warm(t, m, q.Done%2 == 0) // otherwise its first connections meet the paused servers
				resume := pause(servers, which...)
				for i := range 4 {
					calls.call(evidence.Between(random, 50*time.Millisecond, 200*time.Millisecond), i == 3, func(ctx context.Context) error {
						if err := m.LockContext(ctx, 0); err != nil {
							return err
						}
						m.Unlock()
						return nil
					}, func(err error) string { return checkSilence(err, i == 3, which...) })
				}
				resume()
			}
		})
	}
	s.Figure(calls.figure())
	compareSilence(s, servers, dialers, 100*time.Millisecond, 0, 2, 4)
}

// checkSilence says what is wrong with the error of a call that too few servers have answered. The error must name the silent
// servers, which are those in which.
func checkSilence(err error, cancelled bool, which ...int) string {
	switch {
	case err == nil:
		return "success without an answer"
	case cancelled && errors.Is(err, context.Canceled):
		return ""
	case cancelled, !errors.Is(err, redimutex.ErrUnavailable), !errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("got %v", err)
	}
	named := map[int]bool{}
	nodeErrors(err, func(e *redimutex.NodeError) { named[e.Node] = true })
	for _, i := range which {
		if !named[i] {
			return fmt.Sprintf("server %d is not named: %v", i, err)
		}
	}
	return ""
}

// nodeErrors calls f for each NodeError in the tree of err.
func nodeErrors(err error, f func(*redimutex.NodeError)) {
	switch e := err.(type) { //nolint:errorlint // this walks the tree itself
	case *redimutex.NodeError:
		f(e)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			nodeErrors(inner, f)
		}
	case interface{ Unwrap() error }:
		nodeErrors(e.Unwrap(), f)
	}
}

func onlyServer(s *evidence.Scene) {
	servers, dialers := start(s, 1)
	random := s.Random(0)
	calls := newCalls(s.Noise(), s.Long)
	for q := s.Quota(2, 40); q.More(); q.Done++ {
		for _, f := range single {
			s.Round(func(t testing.TB) {
				c := f.client(t, dialers, hour)
				m := c.Mutex("only " + f.name)
				if err := m.LockContext(s.Context(), forever); err != nil {
					t.Fatal(err)
				}
				lease, cancel := m.Lease(), q.Done%2 == 1
				kept := f.name == "reuse" // the lock is kept for the next goroutine: no server is asked
				defer pause(servers, 0)()
				extend := func(ctx context.Context) error { return lease.Extend(ctx, 2*hour) }
				for _, one := range []struct {
					cancel, may bool
					call        func(context.Context) error
				}{
					{false, false, extend},
					{true, false, extend},
					{cancel, kept, m.UnlockContext},
					{cancel, false, func(ctx context.Context) error { return c.Mutex("another of "+f.name).LockContext(ctx, 0) }},
				} {
					calls.call(evidence.Between(random, 50*time.Millisecond, 150*time.Millisecond), one.cancel, one.call, func(err error) string {
						if one.may && err == nil {
							return ""
						}
						return checkSilence(err, one.cancel)
					})
				}
			})
		}
	}
	s.Figure(calls.figure())
	s.Note("Each try is an Extend, an Unlock or a Lock with a ctx that ends, by its deadline or by cancellation, while the server is paused.")
	// The other libraries have connections with the usual timeouts: 5 s for redigo, as in redimutex.NewPool, and the default
	// of go-redis.
	for _, p := range bothPeers(dialers, hour, 5*time.Second, false) {
		compare(s, p, func(t testing.TB, l peers.Library, f *evidence.Figure) {
			extending, unlocking := l.Slot(p.name+" extending"), l.Slot(p.name+" unlocking")
			s.Must(errors.Join(extending.TryLock(context.Background()), unlocking.TryLock(context.Background())))
			defer pause(servers, 0)()
			const allowed = 100 * time.Millisecond
			within := func(call func(context.Context) error) outcome {
				ctx, cancel := context.WithTimeout(context.Background(), allowed)
				defer cancel()
				o := await(s, t, func() error { return call(ctx) })
				f.Count(o.inTime(allowed))
				return o
			}
			extended, unlocked := within(func(ctx context.Context) error { return extending.Extend(ctx, hour) }), within(unlocking.Unlock)
			f.Worst = fmt.Sprintf("with a ctx of 100 ms: Extend %s, Unlock %s", extended, unlocked)
		})
	}
}
