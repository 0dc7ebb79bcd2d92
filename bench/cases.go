package main

import (
	"time"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/bench/internal/work"
)

// A trial is a case of the table: some libraries do the same job in turn.
type trial struct {
	name, title string
	workers     int // processes
	job         work.Job
	libraries   []string
	pings       map[string]time.Duration // by name: rounds without a lock, and the pause between two pings
	shown       []figures.Metric
	full, quick pace
	take        func(*figures.Book, figures.Row, int, *work.Job, []work.Result)
}

// A pace is how often and how long.
type pace struct {
	rounds    int
	warm, run time.Duration
}

const (
	ttl      = 10 * time.Second
	hold     = 5 * time.Millisecond
	workers  = 4
	each     = 8
	crowd    = 10_000
	coldPing = "PING, one in 50 ms"
	warmPing = "PING, one after the other"

	// The hand-over is measured while the other process is sure to wait: its pause is shorter than a hold,
	// and longer than the poll interval of those that poll.
	handoverHold  = 30 * time.Millisecond
	handoverThink = 20 * time.Millisecond

	// oddEvery times one wait in so many, where a hold takes less than a look at the clock.
	oddEvery = 7
)

// contended are those that wait for a lock that is held.
var contended = []string{
	entrants.RedimutexQueue, entrants.Bare, entrants.Redsync, entrants.RedsyncEager, entrants.Redislock, entrants.Rueidislock,
}

func with(first []string, more ...string) []string {
	return append(append([]string{}, first...), more...)
}

// sec makes the paces below fit on a line.
func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

var trials = []trial{
	{
		name: "own1", title: "1 goroutine, own key", workers: 1,
		job: work.Job{Kind: work.Load, Goroutines: 1, Own: true, Every: oddEvery},
		libraries: []string{
			entrants.Redimutex, entrants.RedimutexCtx, entrants.RedimutexReuse, entrants.Bare, entrants.Redsync, entrants.RedsyncGoRedis, entrants.Redislock, entrants.Rueidislock,
		},
		shown: []figures.Metric{figures.Rate, figures.P50, figures.Requests, figures.Allocs, figures.ClientTime, figures.ServerTime},
		full:  pace{15, sec(.2), sec(.6)}, quick: pace{4, sec(.05), sec(.15)}, take: takeLoad,
	},
	{
		name: "own64", title: "64 goroutines, own keys", workers: 1,
		job: work.Job{Kind: work.Load, Goroutines: 64, Own: true, Every: oddEvery},
		libraries: []string{
			entrants.RedimutexMux, entrants.Redimutex, entrants.Bare, entrants.Redsync, entrants.RedsyncGoRedis, entrants.Redislock, entrants.Rueidislock,
		},
		shown: []figures.Metric{figures.Rate, figures.P50, figures.P99, figures.Requests, figures.Allocs, figures.ClientTime, figures.ServerTime},
		full:  pace{15, sec(.3), sec(.6)}, quick: pace{4, sec(.1), sec(.15)}, take: takeLoad,
	},
	{
		name: "hold5", title: "4 processes x 8 goroutines, one key, 5 ms hold", workers: workers,
		job:       work.Job{Kind: work.Load, Goroutines: each, Hold: hold, Spans: true},
		libraries: with(contended, entrants.Redimutex),
		shown:     []figures.Metric{figures.P50, figures.P99, figures.Fairness, figures.Rate, figures.Requests},
		full:      pace{3, sec(1), sec(12)}, quick: pace{1, sec(.3), sec(3)}, take: takeContended,
	},
	{
		name: "nohold", title: "4 processes x 8 goroutines, one key, no hold", workers: workers,
		job:       work.Job{Kind: work.Load, Goroutines: each, Every: oddEvery},
		libraries: with(contended, entrants.RedimutexBoth, entrants.RedimutexReuse),
		shown:     []figures.Metric{figures.Rate, figures.P99, figures.Fairness, figures.Requests, figures.ClientTime, figures.ServerTime},
		full:      pace{7, sec(.5), sec(2)}, quick: pace{2, sec(.2), sec(.5)}, take: takeContended,
	},
	processes(1), processes(4), processes(16), processes(64),
	{
		name: "waiting", title: "10,000 goroutines wait for one held key", workers: 1,
		job:       work.Job{Kind: work.Waiting, Goroutines: crowd},
		libraries: []string{entrants.Redimutex, entrants.RedimutexQueue, entrants.Bare, entrants.Redsync, entrants.Redislock, entrants.Rueidislock},
		shown:     []figures.Metric{figures.Polls, figures.Goroutines, figures.Bytes, figures.CPU, figures.ServerCPU},
		full:      pace{3, sec(2), sec(4)}, quick: pace{1, sec(1), sec(1.5)}, take: takeStill,
	},
	{
		name: "held", title: "10,000 held locks, TTL 10 s", workers: 1,
		job:       work.Job{Kind: work.Held, Goroutines: crowd, Own: true},
		libraries: []string{entrants.Redimutex, entrants.Rueidislock}, // the others do not renew
		shown:     []figures.Metric{figures.Goroutines, figures.CPU, figures.Bytes, figures.Polls, figures.ServerCPU},
		full:      pace{2, sec(4), sec(20)}, quick: pace{1, sec(1), sec(12)}, take: takeStill,
	},
	{
		name: "handover", title: "hand-over between 2 processes, 30 ms hold", workers: 2,
		job:       work.Job{Kind: work.Load, Goroutines: 1, Hold: handoverHold, Think: handoverThink, Spans: true},
		libraries: []string{entrants.RedimutexQueue, entrants.Bare, entrants.RedsyncEager, entrants.Redislock, entrants.Rueidislock},
		pings:     map[string]time.Duration{coldPing: handoverHold + handoverThink, warmPing: 0},
		shown:     []figures.Metric{figures.Handover, figures.RoundTrip},
		full:      pace{5, sec(.3), sec(3)}, quick: pace{2, sec(.2), sec(.8)}, take: takeHandover,
	},
}

// processes is the case of n processes with one goroutine each.
func processes(n int) trial {
	return trial{
		name: procs(n), title: "separate processes, one goroutine each, one key, no hold: " + procs(n)[len("procs"):], workers: n,
		job:       work.Job{Kind: work.Load, Goroutines: 1, Every: oddEvery},
		libraries: with(contended[:1], entrants.Bare, entrants.Redsync, entrants.Redislock, entrants.Rueidislock),
		shown:     []figures.Metric{figures.Rate, figures.P99, figures.Fairness, figures.Requests, figures.ClientTime, figures.ServerTime},
		full:      pace{5, sec(.5), sec(2)}, quick: pace{1, sec(.2), sec(.5)}, take: takeContended,
	}
}

// crowds are the numbers of processes that are tried.
var crowds = []int{1, 4, 16, 64}
