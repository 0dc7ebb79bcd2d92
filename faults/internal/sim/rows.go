package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// Rows are the faults that are simulated.
func Rows() []evidence.Row {
	return []evidence.Row{
		{
			ID: 1, Name: "sim-drift", Fault: "simulation: clock drift, delay, loss, hangs", Must: "no overlap",
			Short: 12 * time.Second, Long: 4 * time.Minute, Run: drift,
		},
		{
			ID: 2, Name: "sim-amnesia", Fault: "simulation: amnesiac restart, clock jump of a TTL",
			Must: "the checker must detect overlaps here (proof that it works); fences hold", Short: 8 * time.Second, Long: 4 * time.Minute, Run: amnesia,
		},
		{
			ID: 3, Name: "sim-guard", Fault: "simulation: amnesiac restart with WithRestartGuard", Must: "no overlap",
			Short: 6 * time.Second, Long: 2 * time.Minute, Run: guard,
		},
		{
			ID: 7, Name: "sim-revival", Fault: "simulation: renewal after expiry", Must: "never revives",
			Short: 5 * time.Second, Long: 30 * time.Second, Run: revival,
		},
		{
			ID: 24, Name: "sim-mixed",
			Fault: "simulation: extensions (longer, shorter than what is left, abandoned), mixed options, foreign clients, commands that overtake each other, clock steps back",
			Must:  "no overlap, no falling fence", Short: 10 * time.Second, Long: 6 * time.Minute, Run: disorder,
		},
		{
			ID: 29, Name: "sim-regain", Fault: "simulation: servers restart empty, one after the other, each away for longer than a TTL",
			Must: "a lock that is held through all of it survives", Short: 5 * time.Second, Long: time.Minute, Run: regaining,
		},
		{
			ID: 36, Name: "sim-orphans", Fault: "simulation: calls given up, connections that break before their commands arrive, hangs; TTL of 10 s",
			Must: "no lock is left behind", Short: 5 * time.Second, Long: time.Minute, Run: orphaned,
		},
		{
			ID: 37, Name: "sim-kinds", Fault: "simulation: readers and writers, permits, several keys, downgrades and hand-overs, mixed on one key with foreign clients, restarts, commands that overtake each other, clock steps back",
			Must: "no overlap, no permit too many, no falling fence", Short: 5 * time.Second, Long: 2 * time.Minute, Run: together,
		},
	}
}

// The weathers. A lease is good for clocks that differ by 1% and 2 ms.
var (
	storm = Weather{
		Drift: .009, Offset: time.Second, Slow: .01, Break: .005, Calm: time.Second,
		Hang: 3, Crash: 1, Cut: true, Long: .05, Pause: .02, Cancel: .05,
	}
	// A fence is safe as long as one of the servers that were told of it remembers it in each majority, or
	// the clocks of the servers are right. Now and then too many have forgotten, so the clocks have to be.
	corrected = Weather{
		Drift: .009, Slewed: true, Slow: .005, Break: .005, Calm: time.Second,
		Hang: 1, Crash: 1, Amnesia: 4, Long: .2, Pause: .05, Cancel: .02,
	}
	forgetful = Weather{
		Drift: .009, Slow: .005, Break: .005, Calm: time.Second,
		Hang: 1, Crash: 1, Amnesia: 4, Long: .2, Pause: .05, Cancel: .02,
	}
	// Commands of one client overtake each other, and clocks are set back.
	unruly = Weather{
		Drift: .009, Offset: time.Second, Slow: .01, Late: .05, Break: .005, Calm: time.Second,
		Hang: 3, Crash: 1, Back: 3, Cut: true, Long: .1, Pause: .02, Cancel: .05,
	}
	jumping = Weather{
		Drift: .009, Slow: .005, Break: .005, Calm: 2 * time.Second,
		Hang: 1, Jump: 4, Long: .1, Pause: .05, Cancel: .02,
	}
)

// simulations runs several Configs, as many at once as there are processors, and returns their reports.
func simulations(ctx context.Context, s evidence.Setup, short, long int, configs ...Config) ([]*Report, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	reports, errs := make([]*Report, len(configs)), make([]error, len(configs))
	want := short
	if s.Long {
		want = long
	}
	var (
		mu   sync.Mutex
		done = make([]int, len(configs))
		free = make(chan struct{}, runtime.NumCPU())
		all  sync.WaitGroup
	)
	for i, c := range configs {
		c.Seed, c.Want = 1_000_000*s.Seed, want
		c.Time = s.Time * time.Duration(cap(free)) / time.Duration(len(configs)) * 8 / 10
		if !s.Long {
			c.Least = want / 3
		}
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			reports[i], errs[i] = Run(ctx, program, c, func(n int) {
				mu.Lock()
				defer mu.Unlock()
				done[i] = min(n, want)
				sum := 0
				for _, d := range done {
					sum += d
				}
				s.Report(sum, want*len(configs))
			})
		})
	}
	all.Wait()
	return reports, errors.Join(errs...)
}

// judged is the figure of a simulation in which bad of tried things must not have happened.
func judged(c Config, r *Report, bad, tried int, what string) evidence.Figure {
	return evidence.Figure{
		Library: c.Name, Held: tried - bad, Tried: tried, NotJudged: c.Library != evidence.Ours || c.Beyond,
		Worst: fmt.Sprintf("%d %s", bad, what),
	}
}

// alsoBroken spoils a figure by something else that must not be.
func alsoBroken(f evidence.Figure, bad int, what string) evidence.Figure {
	if bad > 0 {
		f.Held, f.Worst = 0, fmt.Sprintf("%s, %d %s", f.Worst, bad, what)
	}
	return f
}

// exclusion is the figure of a simulation in which nothing may be wrong at all.
func exclusion(c Config, r *Report) evidence.Figure {
	f := judged(c, r, r.Overlaps, r.Acquired, "overlaps")
	f = alsoBroken(f, r.Revived, "leases revived")
	f = alsoBroken(f, r.Inverted, "fences not higher than the one before")
	f = alsoBroken(f, r.Cut, "leases cut short")
	if c.Servers == 1 {
		// Of several, a try that was sent in time and executed late can bring back a majority that clock jumps have broken.
		f = alsoBroken(f, r.Prolonged, "leases renewed although another had got the lock")
	}
	return f
}

// note says how a simulation went.
func note(c Config, r *Report) string {
	n := fmt.Sprintf("%s: %d episodes, %v of virtual time in %v (%.0f times as fast), %d acquisitions, %d renewals, %d leases lost, %d commands; trace %016x.",
		c.Name, r.Episodes, r.Virtual.Round(time.Second), r.Real.Round(time.Second), r.Virtual.Seconds()/max(r.Real.Seconds(), 1e-3),
		r.Acquired, r.Renewed, r.Lost, r.Events, r.Hash)
	if r.First != "" {
		n += " First of what should not be: " + r.First + "."
	}
	return n
}

const limits = "The clients share one clock, which is the true time, and the clocks of the servers run up to 0.9% faster or slower than it. " +
	"A holder that is paused does nothing, but its process goes on renewing."

// drift is row 1.
func drift(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
	configs := []Config{
		{Name: "redimutex, 1 server", Servers: 1, Renew: true},
		{Name: "redimutex, 1 server, fixed lease, fences", Servers: 1, Fencing: true},
		{Name: "redimutex, 1 server, queue, fences", Servers: 1, Renew: true, Fencing: true, Queue: true},
		{Name: "redimutex, 1 server, multiplexed", Servers: 1, Renew: true, Multiplex: true},
		{Name: "redimutex, 1 server, foreign pool", Servers: 1, Renew: true, Foreign: true},
		{Name: "redimutex, 5 servers, fences", Servers: 5, Renew: true, Fencing: true},
		{Name: "redimutex, 5 servers, fixed lease", Servers: 5},
		{Name: "redsync, 1 server", Library: "redsync", Servers: 1},
		{Name: "redsync, 5 servers", Library: "redsync", Servers: 5},
	}
	for i := range configs {
		configs[i].Weather = storm
	}
	res, reports, err := table(ctx, s, 1200, 60000, configs)
	if err != nil {
		return res, err
	}
	for i, c := range configs {
		r := reports[i]
		res.Figures = append(res.Figures, exclusion(c, r))
	}
	return res, draw(&res, s, configs[5], reports[5], "Five servers in a storm, and the leases of six workers")
}

// table runs the Configs, and begins the result with the notes.
func table(ctx context.Context, s evidence.Setup, short, long int, configs []Config) (evidence.Result, []*Report, error) {
	for i := range configs {
		if configs[i].Library == "" {
			configs[i].Library = evidence.Ours
		}
	}
	reports, err := simulations(ctx, s, short, long, configs...)
	if err != nil {
		return evidence.Result{}, nil, err
	}
	res := evidence.Result{Notes: []string{limits}}
	for i, c := range configs {
		res.Notes = append(res.Notes, note(c, reports[i]))
	}
	return res, reports, nil
}

// amnesia is row 2. Here overlaps have to be found, or the checker is worth nothing in the other rows.
func amnesia(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
	configs := []Config{
		{Name: "redimutex, 5 servers, amnesia", Servers: 5, Renew: true, Fencing: true, Weather: corrected},
		{Name: "redimutex, 5 servers, amnesia, clocks up to 2 s apart", Servers: 5, Renew: true, Fencing: true, Weather: forgetful, Beyond: true},
		{Name: "redimutex, 5 servers, clock jumps", Servers: 5, Renew: true, Fencing: true, Weather: jumping},
		{Name: "redimutex, 1 server, clock jumps", Servers: 1, Renew: true, Fencing: true, Weather: jumping},
		{Name: "redsync, 5 servers, amnesia", Library: "redsync", Servers: 5, Weather: corrected},
		{Name: "redsync, 5 servers, clock jumps", Library: "redsync", Servers: 5, Weather: jumping},
	}
	res, reports, err := table(ctx, s, 3000, 60000, configs)
	if err != nil {
		return res, err
	}
	res.Notes = append(res.Notes, "In the second line of figures the clocks of the servers drift apart by up to two seconds, and nothing corrects them. "+
		"There a fence can fall: when so many have forgotten it that a majority has none left which knows it, and the clocks of those are behind. That is more than the guarantee covers.")
	for i, c := range configs {
		r := reports[i]
		f := judged(c, r, r.Stale+r.Inverted, r.Writes, fmt.Sprintf("stale writes or fences out of order, %d refused, %d overlaps in %d acquisitions", r.Refused, r.Overlaps, r.Acquired))
		if c.Servers == 1 { // as in exclusion
			f = alsoBroken(f, r.Prolonged, "leases renewed although another had got the lock")
		}
		found := evidence.Figure{Library: c.Name + ": the checker finds overlaps", Tried: 1}
		if r.Overlaps > 0 {
			found.Held = 1
		}
		res.Figures = append(res.Figures, f)
		// That enough clocks of five jump within one hold is rare: a short run need not have it.
		if c.Library == evidence.Ours && r.Overlaps == 0 && (s.Long || c.Servers == 1 || c.Weather.Jump == 0) {
			res.Figures = append(res.Figures, found)
		}
	}
	return res, draw(&res, s, configs[0], reports[0], "Five servers that forget, and the leases of six workers")
}

// guard is row 3.
func guard(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
	configs := []Config{
		{Name: "redimutex, 5 servers", Servers: 5, Renew: true, Fencing: true, Guard: true, Weather: forgetful},
		{Name: "redimutex, 3 servers, fixed lease", Servers: 3, Guard: true, Weather: forgetful},
	}
	res, reports, err := table(ctx, s, 2500, 50000, configs)
	if err != nil {
		return res, err
	}
	for i, c := range configs {
		res.Figures = append(res.Figures, judged(c, reports[i], reports[i].Overlaps, reports[i].Acquired, "overlaps"))
	}
	return res, draw(&res, s, configs[0], reports[0], "Five servers that forget and know it, and the leases of six workers")
}

// revival is row 7.
func revival(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
	calm := Weather{Drift: .009, Slow: .01, Break: .005, Calm: time.Second}
	configs := []Config{
		{Name: "redimutex, 1 server", Servers: 1, Renew: true, Lapse: true, Weather: calm},
		{Name: "redimutex, 5 servers", Servers: 5, Renew: true, Fencing: true, Lapse: true, Weather: calm},
		{Name: "redsync, 5 servers, WithSetNXOnExtend", Library: "redsync", Servers: 5, Lapse: true, Weather: calm},
	}
	res, reports, err := table(ctx, s, 150, 1000, configs)
	if err != nil {
		return res, err
	}
	for i, c := range configs {
		r := reports[i]
		f := judged(c, r, r.Revived, r.Lapsed, "revived")
		res.Figures = append(res.Figures, alsoBroken(f, r.Overlaps, "overlaps"))
	}
	return res, nil
}
