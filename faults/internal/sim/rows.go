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

// A scenario is a row: Configs, and how their reports are judged.
type scenario struct {
	evidence.Row
	short, long int     // Want of each Config
	weather     Weather // of the Configs that have none of their own
	configs     []Config
	judge       func(s evidence.Setup, c Config, r *Report) []evidence.Figure
	note        string
	picture     string // the title of a picture; empty: there is none
	of          int    // the index of the Config in the picture
}

// Rows returns the rows of the faults that are simulated.
func Rows() (rows []evidence.Row) {
	for _, x := range scenarios() {
		x.Run = x.play
		rows = append(rows, x.Row)
	}
	return rows
}

func scenarios() []scenario {
	return []scenario{
		{
			Row: evidence.Row{
				ID: 1, Name: "sim-drift", Fault: "simulation: clock drift, delay, loss, hangs", Must: "no overlap",
				Short: 12 * time.Second, Long: 4 * time.Minute,
			},
			short: 1200, long: 60000, weather: storm, judge: exclusion, picture: "Five servers in a storm, and the leases of six workers", of: 5,
			configs: []Config{
				{Name: "redimutex, 1 server", Servers: 1, Renew: true},
				{Name: "redimutex, 1 server, fixed lease, fences", Servers: 1, Fencing: true},
				{Name: "redimutex, 1 server, queue, fences", Servers: 1, Renew: true, Fencing: true, Queue: true},
				{Name: "redimutex, 1 server, multiplexed", Servers: 1, Renew: true, Multiplex: true},
				{Name: "redimutex, 1 server, foreign pool", Servers: 1, Renew: true, Foreign: true},
				{Name: "redimutex, 5 servers, fences", Servers: 5, Renew: true, Fencing: true},
				{Name: "redimutex, 5 servers, fixed lease", Servers: 5},
				{Name: "redsync, 1 server", Library: "redsync", Servers: 1},
				{Name: "redsync, 5 servers", Library: "redsync", Servers: 5},
			},
		},
		{
			Row: evidence.Row{
				ID: 2, Name: "sim-amnesia", Fault: "simulation: amnesiac restart, clock jump of a TTL",
				Must: "the checker must detect overlaps here (proof that it works); fences hold", Short: 8 * time.Second, Long: 4 * time.Minute,
			},
			short: 3000, long: 60000, weather: corrected, judge: forgotten, picture: "Five servers that forget, and the leases of six workers",
			note: "In the second line of figures the clocks of the servers drift apart by up to two seconds, and nothing corrects them. " +
				"There a fence can fall: when so many have forgotten it that a majority has none left which knows it, and the clocks of those are behind. That is more than the guarantee covers.",
			configs: []Config{
				{Name: "redimutex, 5 servers, amnesia", Servers: 5, Renew: true, Fencing: true},
				{Name: "redimutex, 5 servers, amnesia, clocks up to 2 s apart", Servers: 5, Renew: true, Fencing: true, Weather: forgetful, Beyond: true},
				{Name: "redimutex, 5 servers, clock jumps", Servers: 5, Renew: true, Fencing: true, Weather: jumping},
				{Name: "redimutex, 1 server, clock jumps", Servers: 1, Renew: true, Fencing: true, Weather: jumping},
				{Name: "redsync, 5 servers, amnesia", Library: "redsync", Servers: 5},
				{Name: "redsync, 5 servers, clock jumps", Library: "redsync", Servers: 5, Weather: jumping},
			},
		},
		{
			Row: evidence.Row{
				ID: 3, Name: "sim-guard", Fault: "simulation: amnesiac restart with WithRestartGuard", Must: "no overlap",
				Short: 6 * time.Second, Long: 2 * time.Minute,
			},
			short: 2500, long: 50000, weather: forgetful, picture: "Five servers that forget and know it, and the leases of six workers",
			judge: func(_ evidence.Setup, c Config, r *Report) []evidence.Figure {
				return []evidence.Figure{judged(c, r.Overlaps, r.Acquired, "overlaps")}
			},
			configs: []Config{
				{Name: "redimutex, 5 servers", Servers: 5, Renew: true, Fencing: true, Guard: true},
				{Name: "redimutex, 3 servers, fixed lease", Servers: 3, Guard: true},
			},
		},
		{
			Row: evidence.Row{
				ID: 7, Name: "sim-revival", Fault: "simulation: renewal after expiry", Must: "never revives",
				Short: 5 * time.Second, Long: 30 * time.Second,
			},
			short: 150, long: 1000, weather: Weather{Drift: .009, Slow: .01, Break: .005, Calm: time.Second},
			judge: none("revived", func(r *Report) (bad, tried int) { return r.Revived, r.Lapsed }),
			configs: []Config{
				{Name: "redimutex, 1 server", Servers: 1, Renew: true, Lapse: true},
				{Name: "redimutex, 5 servers", Servers: 5, Renew: true, Fencing: true, Lapse: true},
				{Name: "redsync, 5 servers, WithSetNXOnExtend", Library: "redsync", Servers: 5, Lapse: true},
			},
		},
		{
			Row: evidence.Row{
				ID: 24, Name: "sim-mixed",
				Fault: "simulation: extensions (longer, shorter than what is left, abandoned), mixed options, foreign clients, commands that overtake each other, clock steps back",
				Must:  "no overlap, no falling fence", Short: 10 * time.Second, Long: 6 * time.Minute,
			},
			short: 1200, long: 112000, configs: unrulies(), judge: exclusion,
		},
		{
			Row: evidence.Row{
				ID: 29, Name: "sim-regain", Fault: "simulation: servers restart empty, one after the other, each away for longer than a TTL",
				Must: "a lock that is held through all of it survives", Short: 5 * time.Second, Long: time.Minute,
			},
			short: 60, long: 4000, weather: steady,
			judge: none("times lost", func(r *Report) (bad, tried int) { return r.Fallen, r.Restarts }),
			configs: []Config{
				{Name: "redimutex, 3 servers", Servers: 3, Renew: true, Endure: true},
				{Name: "redimutex, 3 servers, fences, restart guard", Servers: 3, Renew: true, Fencing: true, Guard: true, Endure: true},
				{Name: "redimutex, 5 servers, fences", Servers: 5, Renew: true, Fencing: true, Endure: true},
			},
		},
		{
			Row: evidence.Row{
				ID: 36, Name: "sim-orphans", Fault: "simulation: calls given up, connections that break before their commands arrive, hangs; TTL of 10 s",
				Must: "no lock is left behind", Short: 5 * time.Second, Long: time.Minute,
			},
			short: 800, long: 40000, configs: orphanages(),
			judge: none("locks left behind", func(r *Report) (bad, tried int) { return r.Orphans, r.Acquired }),
		},
		{
			Row: evidence.Row{
				ID: 37, Name: "sim-kinds", Fault: "simulation: readers and writers, permits, several keys, downgrades and hand-overs, mixed on one key with foreign clients, restarts, commands that overtake each other, clock steps back",
				Must: "no overlap, no permit too many, no falling fence", Short: 5 * time.Second, Long: 2 * time.Minute,
			},
			short: 1200, long: 20000, configs: motley(), judge: exclusion,
		},
	}
}

// play runs the Configs, as many at once as there are processors, and judges their reports.
func (x scenario) play(ctx context.Context, s evidence.Setup) (res evidence.Result, err error) {
	program, err := os.Executable()
	if err != nil {
		return res, err
	}
	n := len(x.configs)
	reports, errs, done := make([]*Report, n), make([]error, n), make([]int, n)
	want, least := x.short, x.short/3
	if s.Long {
		want, least = x.long, 0
	}
	var mu sync.Mutex
	free := make(chan struct{}, runtime.NumCPU())
	var all sync.WaitGroup
	for i := range x.configs {
		c := &x.configs[i]
		if c.Library == "" {
			c.Library = evidence.Ours
		}
		if c.Weather == (Weather{}) {
			c.Weather = x.weather
		}
		c.Seed, c.Want, c.Least = 1_000_000*s.Seed, want, least
		c.Time = s.Time * time.Duration(cap(free)) / time.Duration(n) * 8 / 10
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			reports[i], errs[i] = Run(ctx, program, *c, func(got int) {
				mu.Lock()
				defer mu.Unlock()
				done[i] = min(got, want)
				sum := 0
				for _, d := range done {
					sum += d
				}
				s.Report(sum, want*n)
			})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return res, err
	}
	res.Notes = []string{limits}
	for i, c := range x.configs {
		res.Notes = append(res.Notes, note(c, reports[i]))
		res.Figures = append(res.Figures, x.judge(s, c, reports[i])...)
	}
	if x.note != "" {
		res.Notes = append(res.Notes, x.note)
	}
	if x.picture == "" {
		return res, nil
	}
	return res, draw(&res, s, x.configs[x.of], reports[x.of], x.picture)
}

// judged returns the figure of a simulation in which bad of tried cases were violations.
func judged(c Config, bad, tried int, what string) evidence.Figure {
	return evidence.Figure{
		Library: c.Name, Held: tried - bad, Tried: tried, NotJudged: c.Library != evidence.Ours || c.Beyond,
		Worst: fmt.Sprintf("%d %s", bad, what),
	}
}

// alsoBroken makes a figure fail if there were other violations too.
func alsoBroken(f evidence.Figure, bad int, what string) evidence.Figure {
	if bad > 0 {
		f.Held, f.Worst = 0, fmt.Sprintf("%s, %d %s", f.Worst, bad, what)
	}
	return f
}

// exclusion returns the figure of a simulation in which no violation of any kind is allowed.
func exclusion(_ evidence.Setup, c Config, r *Report) []evidence.Figure {
	f := judged(c, r.Overlaps, r.Acquired, "overlaps")
	f = alsoBroken(f, r.Revived, "leases revived")
	f = alsoBroken(f, r.Inverted, "fences not higher than the one before")
	f = alsoBroken(f, r.Cut, "leases cut short")
	return []evidence.Figure{prolonged(f, c, r)}
}

// prolonged makes a figure fail if leases were renewed although a later caller had got the lock. With several servers it does
// not: a try that was sent in time and executed late can bring back a majority that clock jumps have broken.
func prolonged(f evidence.Figure, c Config, r *Report) evidence.Figure {
	if c.Servers > 1 {
		return f
	}
	return alsoBroken(f, r.Prolonged, "leases renewed although another had got the lock")
}

// none returns a judge that allows neither one kind of violation nor an overlap.
func none(what string, of func(*Report) (bad, tried int)) func(evidence.Setup, Config, *Report) []evidence.Figure {
	return func(_ evidence.Setup, c Config, r *Report) []evidence.Figure {
		bad, tried := of(r)
		return []evidence.Figure{alsoBroken(judged(c, bad, tried, what), r.Overlaps, "overlaps")}
	}
}

// forgotten is the judge of row 2. The checker must find overlaps in this row, or it proves nothing in the other rows.
func forgotten(s evidence.Setup, c Config, r *Report) []evidence.Figure {
	f := judged(c, r.Stale+r.Inverted, r.Writes,
		fmt.Sprintf("stale writes or fences out of order, %d refused, %d overlaps in %d acquisitions", r.Refused, r.Overlaps, r.Acquired))
	figures := []evidence.Figure{prolonged(f, c, r)}
	// With five servers, enough clocks seldom jump within one hold, so a short run need not have overlaps.
	if c.Library == evidence.Ours && r.Overlaps == 0 && (s.Long || c.Servers == 1 || c.Weather.Jump == 0) {
		figures = append(figures, evidence.Figure{Library: c.Name + ": the checker finds overlaps", Tried: 1})
	}
	return figures
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

// The weathers. A lease stays safe while clocks differ by no more than 1% and 2 ms.
var (
	storm = Weather{
		Drift: .009, Offset: time.Second, Slow: .01, Break: .005, Calm: time.Second,
		Hang: 3, Crash: 1, Cut: true, Long: .05, Pause: .02, Cancel: .05,
	}
	// A fence is safe as long as each majority has a server that was told of it and remembers it, or the clocks of the servers
	// are right. Now and then too many servers have forgotten it, so the clocks have to be right.
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
