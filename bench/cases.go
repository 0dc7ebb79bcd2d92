package main

import (
	"fmt"
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
	servers     int           // that are needed; 0: one
	away        time.Duration // the round trip of all to the servers
	ttl         time.Duration // of the locks; 0: 10 s
	libraries   []string
	others      []other // take their turns as well
	shown       []figures.Metric
	full, quick pace
	take        func(*figures.Book, figures.Row, int, *work.Job, []work.Result)
}

// An other is a row that is no library with the job of the rest.
type other struct {
	name   string
	change func(*work.Job)
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
	pipeline = "pipeline by hand"
	toAndFro = "PUBLISH to and fro"
	alone    = "without a far one"
	beside   = "beside a far one"

	// The hand-over is measured while the other process is sure to wait: its pause is shorter than a hold,
	// and longer than the poll interval of those that poll.
	handoverHold  = 30 * time.Millisecond
	handoverThink = 20 * time.Millisecond

	// The lock is held by three that are near, and by a fourth that is not, for so long each time.
	near    = 3
	farHold = 10 * time.Millisecond

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
			entrants.RedimutexCtx, entrants.Bare, entrants.Redimutex, entrants.RedimutexDo, entrants.RedimutexNewCtx, entrants.Redsync, entrants.RedsyncGoRedis,
			entrants.Redislock, entrants.Rueidislock, entrants.RedimutexPlain, entrants.RedsyncPlain, entrants.RedimutexReuse,
		},
		shown: []figures.Metric{figures.Rate, figures.Pair, figures.Requests, figures.Allocs, figures.ClientTime, figures.ServerTime},
		full:  pace{12, sec(.2), sec(.6)}, quick: pace{4, sec(.05), sec(.15)}, take: takeLoad,
	},
	{
		name: "own64", title: "64 goroutines, own keys", workers: 1,
		job: work.Job{Kind: work.Load, Goroutines: 64, Own: true, Every: oddEvery},
		libraries: []string{
			entrants.RedimutexMux, entrants.Bare, entrants.Redsync, entrants.RedsyncGoRedis, entrants.Redislock, entrants.Rueidislock, entrants.Redimutex,
		},
		others: []other{{pipeline, func(j *work.Job) { j.Kind = work.Pipeline }}},
		shown:  []figures.Metric{figures.Rate, figures.P50, figures.P99, figures.Requests, figures.Allocs, figures.ClientTime, figures.ServerTime},
		full:   pace{12, sec(.3), sec(.6)}, quick: pace{4, sec(.1), sec(.15)}, take: takeLoad,
	},
	{
		name: "hold5", title: "4 processes x 8 goroutines, one key, 5 ms hold", workers: workers,
		job:       work.Job{Kind: work.Load, Goroutines: each, Hold: hold, Spans: true},
		libraries: with(contended, entrants.Redimutex),
		shown:     []figures.Metric{figures.P50, figures.P99, figures.Fairness, figures.Rate, figures.Requests},
		full:      pace{3, sec(1), sec(7)}, quick: pace{1, sec(.3), sec(3)}, take: takeContended,
	},
	{
		name: "nohold", title: "4 processes x 8 goroutines, one key, no hold", workers: workers,
		job:       work.Job{Kind: work.Load, Goroutines: each, Every: oddEvery},
		libraries: with(contended, entrants.RedimutexBoth, entrants.RedimutexReuse),
		others:    []other{{toAndFro, func(j *work.Job) { j.Kind, j.Active = work.ToAndFro, 2 }}},
		shown:     []figures.Metric{figures.Rate, figures.P99, figures.Fairness, figures.Requests, figures.ClientTime, figures.ServerTime},
		full:      pace{7, sec(.5), sec(2)}, quick: pace{2, sec(.2), sec(.5)}, take: takeContended,
	},
	processes(1, 3), processes(4, 5), processes(16, 3), processes(64, 5),
	{
		name: "waiting", title: "10,000 goroutines wait for one held key", workers: 1,
		job:       work.Job{Kind: work.Waiting, Goroutines: crowd},
		libraries: []string{entrants.Redimutex, entrants.RedimutexQueue, entrants.Bare, entrants.Redsync, entrants.Redislock, entrants.Rueidislock},
		shown:     []figures.Metric{figures.Polls, figures.Goroutines, figures.Bytes, figures.CPU, figures.ServerCPU},
		full:      pace{2, sec(2), sec(4)}, quick: pace{1, sec(1), sec(1.5)}, take: takeStill,
	},
	held("held10k", "10,000", crowd, entrants.Redimutex, entrants.Rueidislock), // the others do not renew
	held("held100k", "100,000", 10*crowd, entrants.Redimutex),
	{
		name: "handover", title: "hand-over between 2 processes, 30 ms hold", workers: 2,
		job:       work.Job{Kind: work.Load, Goroutines: 1, Hold: handoverHold, Think: handoverThink, Spans: true},
		libraries: []string{entrants.RedimutexQueue, entrants.Bare, entrants.RedsyncEager, entrants.Redislock, entrants.Rueidislock},
		others: []other{
			{coldPing, func(j *work.Job) { j.Kind, j.Active, j.Think = work.Ping, 1, handoverHold+handoverThink }},
			{warmPing, func(j *work.Job) { j.Kind, j.Active, j.Think = work.Ping, 1, 0 }},
		},
		shown: []figures.Metric{figures.Handover, figures.RoundTrip},
		full:  pace{5, sec(.3), sec(3)}, quick: pace{2, sec(.2), sec(.8)}, take: takeHandover,
	},
	far("far20", 20*time.Millisecond), far("far200", 200*time.Millisecond),
	redlock("redlock", "5 servers and 1, all on this machine", 0), redlock("redlock1ms", "5 servers and 1, each 1 ms away", time.Millisecond),
}

// held is the case of n locks that one process holds.
func held(name, number string, n int, libraries ...string) trial {
	return trial{
		name: name, title: number + " held locks, TTL 30 s", workers: 1, ttl: 30 * time.Second,
		job:       work.Job{Kind: work.Held, Goroutines: n, Own: true},
		libraries: libraries,
		shown:     []figures.Metric{figures.Goroutines, figures.CPU, figures.Bytes, figures.Polls, figures.ServerCPU},
		// The locks are renewed every 10 s, or 15: 30 are a whole number of both.
		full: pace{1, sec(4), sec(30)}, quick: pace{1, sec(1), sec(10)}, take: takeStill,
	}
}

// far is the case of a process that is a round trip away from the server, in the queue with some that are near.
func far(name string, roundTrip time.Duration) trial {
	queued := func(active int) func(*work.Job) {
		return func(j *work.Job) { j.Library, j.Active = entrants.RedimutexQueue, active }
	}
	return trial{
		name: name, title: fmt.Sprintf("3 processes near the server, 10 ms hold, and one with a round trip of %v", roundTrip), workers: near + 1,
		job:    work.Job{Kind: work.Load, Goroutines: 1, Hold: farHold, Spans: true, RoundTrip: roundTrip},
		others: []other{{alone, queued(near)}, {beside, queued(0)}},
		shown:  []figures.Metric{figures.NearRate, figures.FarTurn, figures.Rate},
		full:   pace{5, sec(1.5), sec(4)}, quick: pace{1, sec(1.5), sec(2)}, take: takeFar,
	}
}

// redlock is the case of five servers beside one, each a round trip away. Between two pairs there is a pause, so that what
// is measured is how long a pair takes and not how many the cores can do, which all servers share.
func redlock(name, title string, away time.Duration) trial {
	return trial{
		name: name, title: "1 goroutine, own key, a pause of 2 ms after each pair; " + title, workers: 1, servers: 5, away: away,
		job:       work.Job{Kind: work.Load, Goroutines: 1, Own: true, Think: 2 * time.Millisecond},
		libraries: []string{entrants.RedimutexCtx, entrants.RedimutexRedlock},
		shown:     []figures.Metric{figures.Pair, figures.P50, figures.Requests, figures.Allocs, figures.ClientTime},
		full:      pace{7, sec(.3), sec(1)}, quick: pace{3, sec(.1), sec(.4)}, take: takeLoad,
	}
}

// processes is the case of n processes with one goroutine each.
func processes(n, rounds int) trial {
	return trial{
		name: procs(n), title: "separate processes, one goroutine each, one key, no hold: " + procs(n)[len("procs"):], workers: n,
		job:       work.Job{Kind: work.Load, Goroutines: 1, Every: oddEvery},
		libraries: with(contended[:1], entrants.Bare, entrants.Redsync, entrants.Redislock, entrants.Rueidislock),
		shown:     []figures.Metric{figures.Rate, figures.P99, figures.Fairness, figures.Requests, figures.ClientTime, figures.ServerTime},
		full:      pace{rounds, sec(.5), sec(2)}, quick: pace{1, sec(.2), sec(.5)}, take: takeContended,
	}
}

// crowds are the numbers of processes that are tried.
var crowds = []int{1, 4, 16, 64}
