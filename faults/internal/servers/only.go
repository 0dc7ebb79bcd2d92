package servers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

func onlyServerRow() evidence.Row {
	return evidence.Row{
		ID: 10, Name: "only", Fault: "the only server paused: Extend, Unlock", Must: "they return <= ctx + 50 ms",
		Short: 8 * time.Second, Long: 2 * time.Minute, Run: play(onlyServer),
	}
}

func onlyServer(r *run) {
	servers, dialers := start(r.t, 1)
	lateness := tardiness{long: r.Long}
	for round := 0; r.more(round, 2, 40); round++ {
		for _, f := range single {
			r.round(func(t testing.TB) {
				c := f.client(t, dialers, hour)
				m := c.Mutex("only " + f.name)
				if err := m.LockContext(r.t.Context(), forever); err != nil {
					t.Fatal(err)
				}
				lease := m.Lease()
				servers[0].Pause()
				for i := range 2 {
					lateness.call(r.between(50*time.Millisecond, 150*time.Millisecond), i == 1, func(ctx context.Context) error {
						return lease.Extend(ctx, 2*hour)
					}, func(err error) string { return checkSilence(err, i == 1) })
				}
				cancel := round%2 == 1
				lateness.call(r.between(50*time.Millisecond, 150*time.Millisecond), cancel, m.UnlockContext, func(err error) string {
					if err == nil && f.name == "reuse" {
						return "" // the lock is kept for the next goroutine: no server is asked
					}
					return checkSilence(err, cancel)
				})
				lateness.call(r.between(50*time.Millisecond, 150*time.Millisecond), cancel, func(ctx context.Context) error {
					return c.Mutex("another of "+f.name).LockContext(ctx, 0)
				}, func(err error) string { return checkSilence(err, cancel) })
				servers[0].Resume()
			})
		}
	}
	r.figure(lateness.figure())
	r.wrong(&lateness)
	r.note("Each try is an Extend, an Unlock or a Lock with a ctx that ends, by its deadline or by cancellation, while the server is paused.")
	peersOnly(r, servers[0].Pause, servers[0].Resume, dialers)
}

// checkSilence says what is wrong with the error of a call that no server has answered.
func checkSilence(err error, cancelled bool) string {
	switch {
	case err == nil:
		return "success without an answer"
	case cancelled && errors.Is(err, context.Canceled):
		return ""
	case !cancelled && errors.Is(err, context.DeadlineExceeded) && errors.Is(err, redimutex.ErrUnavailable):
		return ""
	}
	return fmt.Sprintf("got %v", err)
}

// peersOnly has the others extend and unlock with a ctx of 100 ms, over connections with their usual
// timeouts: 5 s for redigo, as redimutex.NewPool has it, and what go-redis does by itself.
func peersOnly(r *run, pause, resume func(), dialers []peers.Dialer) {
	limit := time.Second
	if r.Long {
		limit = 20 * time.Second
	}
	for _, p := range bothPeers(dialers, hour, 5*time.Second, false) {
		r.round(func(t testing.TB) {
			locks := p.open(t)
			extending, unlocking := locks.Slot(p.name+" extending"), locks.Slot(p.name+" unlocking")
			for _, l := range []peers.Slot{extending, unlocking} {
				if err := l.TryLock(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			pause()
			defer resume()
			const allowed = 100 * time.Millisecond
			within := func(f func(context.Context) error) outcome {
				ctx, cancel := context.WithTimeout(context.Background(), allowed)
				defer cancel()
				return patience(t, limit, func() error { return f(ctx) })
			}
			extended, unlocked := within(func(ctx context.Context) error { return extending.Extend(ctx, hour) }), within(unlocking.Unlock)
			r.figure(evidence.Figure{
				Library: p.name, Held: inTime(extended, allowed) + inTime(unlocked, allowed), Tried: 2, NotJudged: true,
				Worst: fmt.Sprintf("with a ctx of 100 ms: Extend %s, Unlock %s", extended, unlocked),
			})
		})
	}
}
