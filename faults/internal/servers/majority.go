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
	"github.com/redimutex/redimutex/internal/lab/stats"
)

func majorityRow() evidence.Row {
	return evidence.Row{
		ID: 9, Name: "majority", Fault: "3 of 5 servers paused", Must: "returns <= ctx + 50 ms, with an error for each server",
		Short: 8 * time.Second, Long: 90 * time.Second, Run: play(majority),
	}
}

const (
	// overshoot is how much later than its ctx a call may return, by the table.
	overshoot = 50 * time.Millisecond
	// forever is what no call may take in the short version, where a slow machine must not fail.
	forever = 20 * time.Second
	// hour is a TTL that nothing waits for by mistake: the node timeout is three minutes.
	hour = time.Hour
)

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
	return evidence.Figure{
		Library: evidence.Ours, Held: l.held, Tried: l.tried,
		Worst: fmt.Sprintf("%s after the ctx, p99 %s, limit 50 ms (this machine itself is up to %s late)",
			ms(l.late.Worst()), ms(l.late.Quantile(0.99)), ms(l.hiccup)),
	}
}

func (r *run) wrong(l *tardiness) {
	if len(l.wrong) > 0 {
		r.note("What went wrong: " + strings.Join(l.wrong[:min(len(l.wrong), 5)], "; ") + ".")
	}
}

func majority(r *run) {
	servers, dialers := start(r.t, 5)
	lateness := tardiness{long: r.Long}
	for round := 0; r.more(round, 2, 20); round++ {
		which := r.rng.Perm(5)[:3]
		r.round(func(t testing.TB) {
			for _, f := range fives {
				c := f.client(t, dialers, hour)
				m := c.Mutex("majority")
				if round%2 == 0 { // else it meets the paused servers with its first connections
					if err := m.LockContext(r.t.Context(), forever); err != nil {
						t.Fatal(err)
					}
					m.Unlock()
				}
				pause(servers, which)
				for i := range 4 {
					lateness.call(r.between(50*time.Millisecond, 200*time.Millisecond), i == 3, func(ctx context.Context) error {
						if err := m.LockContext(ctx, 0); err != nil {
							return err
						}
						m.Unlock()
						return nil
					}, func(err error) string { return checkMajority(err, i == 3, which) })
				}
				resume(servers, which)
			}
		})
	}
	r.figure(lateness.figure())
	r.wrong(&lateness)
	limit := 3 * time.Second
	if r.Long {
		limit = 12 * time.Second
	}
	r.round(func(t testing.TB) {
		mutex := redsyncPeer(t, dialers, 0, redsync.WithExpiry(minorityTTL)).Slot("peer")
		which := []int{0, 2, 4}
		pause(servers, which)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		o := patience(t, limit, func() error { return mutex.TryLock(ctx) })
		cancel()
		resume(servers, which)
		r.figure(evidence.Figure{
			Library: "redsync", Held: inTime(o, 100*time.Millisecond), Tried: 1, Worst: "LockContext of 100 ms " + o.String(), NotJudged: true,
		})
	})
}

// inTime is 1 if the call has honoured a ctx that ended after d.
func inTime(o outcome, d time.Duration) int {
	if !o.still && o.took <= d+overshoot {
		return 1
	}
	return 0
}

// checkMajority says what is wrong with the error of a Lock while the servers in which were paused.
func checkMajority(err error, cancelled bool, which []int) string {
	switch {
	case err == nil:
		return "a lock without a majority"
	case cancelled && !errors.Is(err, context.Canceled):
		return fmt.Sprintf("cancelled, and got %v", err)
	case cancelled:
		return ""
	case !errors.Is(err, redimutex.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded):
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
	if e, ok := err.(*redimutex.NodeError); ok { //nolint:errorlint // this walks the tree itself
		f(e)
		return
	}
	switch e := err.(type) { //nolint:errorlint // this walks the tree itself
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			nodeErrors(inner, f)
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			nodeErrors(inner, f)
		}
	}
}
