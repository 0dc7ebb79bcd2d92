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

func minorityRow() evidence.Row {
	return played(evidence.Row{
		ID: 8, Name: "minority", Fault: "1 or 2 of 5 servers paused", Must: "a quorum is enough: Lock and Unlock p99 <= 5 ms",
		Short: 8 * time.Second, Long: 90 * time.Second,
	}, minority)
}

func majorityRow() evidence.Row {
	return played(evidence.Row{
		ID: 9, Name: "majority", Fault: "3 of 5 servers paused", Must: "returns <= ctx + 50 ms, with an error for each server",
		Short: 8 * time.Second, Long: 90 * time.Second,
	}, majority)
}

func onlyServerRow() evidence.Row {
	return played(evidence.Row{
		ID: 10, Name: "only", Fault: "the only server paused: Extend, Unlock", Must: "they return <= ctx + 50 ms",
		Short: 8 * time.Second, Long: 2 * time.Minute,
	}, onlyServer)
}

const (
	// promptly is what the table asks of Lock and Unlock.
	promptly = 5 * time.Millisecond
	// minorityTTL makes the node timeout 3 s: a waiter for a paused server is seen, however slow the machine is.
	minorityTTL = time.Minute
	// overshoot is how much later than its ctx a call may return, by the table.
	overshoot = 50 * time.Millisecond
	// forever is what no call may take in the short version, where a slow machine must not fail.
	forever = 20 * time.Second
	// hour is a TTL that nothing waits for by mistake: the node timeout is three minutes.
	hour = time.Hour
)

// fives are the features that are tried on five servers.
var fives = []feature{
	{name: "plain", servers: 5, options: none},
	{name: "fencing", servers: 5, options: fencing},
	{name: "multiplexed", servers: 5, options: none, shared: true},
}

// ms writes a time in the unit of the table.
func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

// watchHiccups measures how late this machine wakes a goroutine up that does nothing but look at the clock.
func watchHiccups() *redistest.Lateness { return redistest.MeasureLatenessBy(time.Millisecond) }

func pause(servers []*redistest.Server, which ...int) {
	for _, i := range which {
		servers[i].Pause()
	}
}

func resume(servers []*redistest.Server, which ...int) {
	for _, i := range which {
		servers[i].Resume()
	}
}

// Cycles are how long some rounds of Lock and Unlock took.
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

// within reports whether all went well: no error, and no call that waited.
func (c cycles) within(limit time.Duration) bool {
	return c.failed == nil && max(c.lock.Quantile(0.99), c.unlock.Quantile(0.99)) <= limit
}

func minority(r *run) {
	servers, dialers := start(r, 5)
	const cycled = 1000
	held, tried := 0, 0
	var calm, late stats.Times
	var all cycles
	for ; r.more(tried, 2*len(fives), 20*len(fives)); tried++ {
		which := r.rng.Perm(5)[:1+tried%2]
		r.Round(func(t testing.TB) {
			c := fives[tried/2%len(fives)].client(t, dialers, minorityTTL)
			calm = append(calm, cycle(c, cycled/4).lock...)
			pause(servers, which...)
			h := watchHiccups()
			got := cycle(c, cycled)
			late = append(late, h.Naps()...)
			resume(servers, which...)
			if got.within(minorityTTL / 40) { // half of the node timeout: no caller waited for a paused server
				held++
			} else {
				r.Note("Round %d with %d of 5 servers paused: error %v, Lock p99 %s, Unlock p99 %s.",
					tried, len(which), got.failed, ms(got.lock.Quantile(0.99)), ms(got.unlock.Quantile(0.99)))
			}
			all.lock, all.unlock = append(all.lock, got.lock...), append(all.unlock, got.unlock...)
		})
	}
	noise := max(late.Quantile(0.99), calm.Quantile(0.99))
	if r.Long && !all.within(promptly+noise) {
		held = 0
		r.Note("Too slow, even if %s more are granted for the noise of this machine.", ms(noise))
	}
	r.Figure(evidence.Figure{
		Library: evidence.Ours, Held: held, Tried: tried,
		Worst: fmt.Sprintf("Lock p99 %s, Unlock p99 %s, limit 5 ms (Lock p99 without the fault: %s)",
			ms(all.lock.Quantile(0.99)), ms(all.unlock.Quantile(0.99)), ms(calm.Quantile(0.99))),
	})
	r.Note("A try is a round of %d calls of Lock and Unlock with one or two servers paused. Meanwhile this machine woke "+
		"a goroutine that only looks at the clock %s late at p99. The long version adds that, or the p99 without the fault, to the limit.",
		cycled, ms(late.Quantile(0.99)))
	r.compareSilence(servers, dialers, hour, 1, 3)
}

// compareSilence has redsync lock while some of the servers are paused, with a ctx that ends after d.
func (r *run) compareSilence(servers []*redistest.Server, dialers []peers.Dialer, d time.Duration, which ...int) {
	r.compare([]peer{redsyncPeer(dialers, 0, redsync.WithExpiry(minorityTTL))}, func(t testing.TB, _ string, l peers.Library) (int, int, string) {
		slot := l.Slot("peer")
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		pause(servers, which...)
		defer resume(servers, which...)
		o := r.patience(t, func() error { return slot.TryLock(ctx) })
		return o.inTime(min(d, time.Second)), 1, "Lock " + o.String()
	})
}

// A tardiness is how late calls returned after the end of their ctx, against what is allowed.
type tardiness struct {
	long        bool
	late        stats.Times
	hiccup      time.Duration // the worst that the machine itself had meanwhile
	held, tried int
	wrong       []string // what a call returned that it must not
}

// call has f called with a ctx that ends after d, and judges when it returned and, by check, with what.
func (l *tardiness) call(d time.Duration, cancel bool, f func(ctx context.Context) error, check func(error) string) {
	ctx, stop := context.WithTimeout(context.Background(), d)
	if cancel {
		ctx, stop = context.WithCancel(context.Background())
		timer := time.AfterFunc(d, stop)
		defer timer.Stop()
	}
	defer stop()
	h := watchHiccups()
	began := time.Now()
	err := f(ctx)
	late := max(time.Since(began)-d, 0)
	worst := stats.Times(h.Naps()).Worst()
	l.hiccup = max(l.hiccup, worst)
	limit := forever
	if l.long {
		limit = overshoot + worst // a machine that stands still makes everybody late
	}
	l.late = append(l.late, late)
	l.tried++
	problem := check(err)
	if problem == "" && late > limit {
		problem = "returned " + ms(late) + " late, of which the machine's own hiccups explain " + ms(worst)
	}
	if problem == "" {
		l.held++
	} else {
		l.wrong = append(l.wrong, problem)
	}
}

func (l *tardiness) figure() evidence.Figure {
	f := evidence.Figure{
		Library: evidence.Ours, Held: l.held, Tried: l.tried,
		Worst: fmt.Sprintf("%s after the ctx, p99 %s, limit 50 ms (this machine itself is up to %s late)",
			ms(l.late.Worst()), ms(l.late.Quantile(0.99)), ms(l.hiccup)),
	}
	if len(l.wrong) > 0 {
		f.Worst += "; wrong: " + strings.Join(l.wrong[:min(len(l.wrong), 5)], "; ")
	}
	return f
}

func majority(r *run) {
	servers, dialers := start(r, 5)
	lateness := tardiness{long: r.Long}
	for round := 0; r.more(round, 2, 20); round++ {
		which := r.rng.Perm(5)[:3]
		r.Round(func(t testing.TB) {
			for _, f := range fives {
				m := f.client(t, dialers, hour).Mutex("majority")
				warm(t, m, round%2 == 0) // else it meets the paused servers with its first connections
				pause(servers, which...)
				for i := range 4 {
					lateness.call(r.between(50*time.Millisecond, 200*time.Millisecond), i == 3, func(ctx context.Context) error {
						if err := m.LockContext(ctx, 0); err != nil {
							return err
						}
						m.Unlock()
						return nil
					}, func(err error) string { return checkSilence(err, i == 3, which...) })
				}
				resume(servers, which...)
			}
		})
	}
	r.Figure(lateness.figure())
	r.compareSilence(servers, dialers, 100*time.Millisecond, 0, 2, 4)
}

// checkSilence says what is wrong with the error of a call that too few servers have answered: those in which were silent.
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

func onlyServer(r *run) {
	servers, dialers := start(r, 1)
	lateness := tardiness{long: r.Long}
	for round := 0; r.more(round, 2, 40); round++ {
		for _, f := range single {
			r.Round(func(t testing.TB) {
				c := f.client(t, dialers, hour)
				m := c.Mutex("only " + f.name)
				if err := m.LockContext(r.Context(), forever); err != nil {
					t.Fatal(err)
				}
				lease, cancel := m.Lease(), round%2 == 1
				kept := f.name == "reuse" // the lock is kept for the next goroutine: no server is asked
				pause(servers, 0)
				defer resume(servers, 0)
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
					lateness.call(r.between(50*time.Millisecond, 150*time.Millisecond), one.cancel, one.call, func(err error) string {
						if one.may && err == nil {
							return ""
						}
						return checkSilence(err, one.cancel)
					})
				}
			})
		}
	}
	r.Figure(lateness.figure())
	r.Note("Each try is an Extend, an Unlock or a Lock with a ctx that ends, by its deadline or by cancellation, while the server is paused.")
	// The others have connections with their usual timeouts: 5 s for redigo, as redimutex.NewPool has it, and what go-redis
	// does by itself.
	r.compare(bothPeers(dialers, hour, 5*time.Second, false), func(t testing.TB, name string, l peers.Library) (int, int, string) {
		extending, unlocking := l.Slot(name+" extending"), l.Slot(name+" unlocking")
		r.Must(errors.Join(extending.TryLock(context.Background()), unlocking.TryLock(context.Background())))
		pause(servers, 0)
		defer resume(servers, 0)
		const allowed = 100 * time.Millisecond
		within := func(f func(context.Context) error) outcome {
			ctx, cancel := context.WithTimeout(context.Background(), allowed)
			defer cancel()
			return r.patience(t, func() error { return f(ctx) })
		}
		extended, unlocked := within(func(ctx context.Context) error { return extending.Extend(ctx, hour) }), within(unlocking.Unlock)
		return extended.inTime(allowed) + unlocked.inTime(allowed), 2, fmt.Sprintf("with a ctx of 100 ms: Extend %s, Unlock %s", extended, unlocked)
	})
}
