package main

import (
	"time"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/bench/internal/work"
)

// A trial is a case of the table: libraries that take turns at the same job.
type trial struct {
	name, title string
	workers     int // processes
	job         work.Job
	who         []string         // the libraries that take turns
	shown       []figures.Metric // the columns of the table
	goals       []figures.Goal
	rounds      int
	warm, run   time.Duration // of a round
	servers     int           // 0: one; more for libraries that use several
	away        time.Duration // the round trip to the servers
	busy        bool          // another process keeps all cores busy meanwhile
	paired      bool          // part of a comparison of two versions
}

const (
	ttl     = 10 * time.Second
	ms      = time.Millisecond
	seldom  = 7 // one wait of this many is timed, where a hold may take less time than a look at the clock
	crowd   = 10_000
	servers = 5
)

var (
	// redsyncs are the settings of redsync. Goals compare with the better one of each round.
	redsyncs = []string{entrants.Redsync, entrants.RedsyncGo}
	pollers  = []string{entrants.Bare, entrants.Redsync, entrants.RedsyncEager, entrants.Redislock, entrants.Rueidislock}
	libs     = []string{entrants.Bare, entrants.Redsync, entrants.RedsyncGo, entrants.Redislock, entrants.Rueidislock}

	cost      = []figures.Metric{figures.Requests, figures.Allocs, figures.ClientTime, figures.ServerTime}
	costAlone = append([]figures.Metric{figures.Rate, figures.Pair}, cost...)
	fairness  = []figures.Metric{figures.P50, figures.P99, figures.Fairness, figures.Rate, figures.Requests, figures.ClientTime}
	turns     = append([]figures.Metric{figures.Hold}, fairness...)
	kept      = []figures.Metric{figures.Goroutines, figures.CPU, figures.Bytes, figures.Polls, figures.ServerCPU}
)

func with(these []string, more ...string) []string { return append(more, these...) }

func one(library string) []string { return []string{library} }

var trials = []trial{
	{
		name: "own1", title: "1 goroutine, own key", workers: 1, paired: true,
		job: work.Job{Goroutines: 1, Own: true, Every: seldom},
		who: with(libs, entrants.Redimutex, entrants.NewCtx, entrants.Do, entrants.Lock, entrants.Reuse), shown: costAlone,
		rounds: 10, warm: 150 * ms, run: 500 * ms,
		goals: []figures.Goal{
			{Ours: entrants.Redimutex, Metric: figures.Rate, Over: one(entrants.Bare), Least: .95},
			{Ours: entrants.Redimutex, Metric: figures.Rate, Over: redsyncs, Least: 1.05},
			{Ours: entrants.Redimutex, Metric: figures.Rate, Over: one(entrants.Redislock), Least: 1.05},
			{Ours: entrants.Redimutex, Metric: figures.Allocs, Over: one(entrants.Bare), Most: 1},
			{Ours: entrants.Do, Metric: figures.Rate, Over: one(entrants.Bare), Least: .9},
			{Ours: entrants.Reuse, Metric: figures.Rate, Over: one(entrants.Bare), Least: 200},
			{Ours: entrants.Reuse, Metric: figures.Allocs, Most: 2},
		},
	},
	documentedPool("pool", "1 goroutine, own key, a pool as redigo has it", false),
	documentedPool("poolbusy", "the same on a busy machine", true),
	{
		name: "own64", title: "64 goroutines, own keys", workers: 1, paired: true,
		job: work.Job{Goroutines: 64, Own: true, Every: seldom},
		who: with(libs, entrants.Mux, entrants.Redimutex), shown: append([]figures.Metric{figures.Rate, figures.P99}, cost...),
		rounds: 6, warm: 250 * ms, run: 600 * ms,
		goals: []figures.Goal{{Ours: entrants.Mux, Metric: figures.Rate, Over: one(entrants.Bare), Least: 2.5}},
	},
	{
		name: "all5", title: "1 goroutine, 5 own keys", workers: 1,
		job: work.Job{Goroutines: 1, Own: true, Every: seldom},
		who: []string{entrants.All5, entrants.Redimutex, entrants.Bare5}, shown: costAlone,
		rounds: 8, warm: 150 * ms, run: 500 * ms,
		goals: []figures.Goal{{Ours: entrants.All5, Metric: figures.Pair, Over: one(entrants.Redimutex), Most: 1.3}},
	},
	{
		// In a fair queue a waiter waits until all the others were served: 32 holds.
		name: "hold5", title: "4 processes x 8 goroutines, one key, 5 ms", workers: 4, paired: true,
		job: work.Job{Goroutines: 8, Hold: 5 * ms, Spans: true},
		who: with(pollers, entrants.Queue, entrants.Redimutex), shown: turns,
		rounds: 3, warm: time.Second, run: 4 * time.Second,
		goals: []figures.Goal{
			{Ours: entrants.Queue, Metric: figures.P99, Holds: 32, Most: 1.2},
			{Ours: entrants.Queue, Metric: figures.Fairness, Least: .9},
		},
	},
	{
		name: "nohold", title: "4 processes x 8 goroutines, one key, no hold", workers: 4, paired: true,
		job: work.Job{Goroutines: 8, Every: seldom},
		who: with(pollers, entrants.Queue, entrants.QueueReuse), shown: fairness,
		rounds: 3, warm: 500 * ms, run: 1500 * ms,
		goals: []figures.Goal{
			{Ours: entrants.Queue, Metric: figures.Fairness, Least: .9},
			{Ours: entrants.Queue, Metric: figures.Requests, Most: 3},
			{Ours: entrants.QueueReuse, Metric: figures.Rate, Over: one(entrants.Redsync), Least: 100},
			{Ours: entrants.QueueReuse, Metric: figures.Fairness, Least: .8},
		},
	},
	processes("procs16", "16 processes, one key, no hold", 16),
	processes("procs64", "64 processes, one key, no hold", 64),
	{
		// The lock is phase-fair. A reader waits for the rest of a phase of readers and for one writer: 2 holds. A writer
		// waits for 3 other writers and 4 phases of readers: 7 holds.
		name: "rw", title: "64 readers and 4 writers, one key, 5 ms",
		workers: 4, job: work.Job{Goroutines: 17, Writers: 1, Hold: 5 * ms},
		who:    []string{entrants.RWQueue, entrants.RWMux, entrants.RWMutex, entrants.Readers, entrants.Turns},
		shown:  []figures.Metric{figures.Hold, figures.P50, figures.P99, figures.Writers, figures.Rate, figures.Requests, figures.ClientTime},
		rounds: 4, warm: time.Second, run: 4 * time.Second,
		goals: []figures.Goal{
			{Ours: entrants.RWQueue, Metric: figures.P99, Holds: 2, Most: 1.3},
			{Ours: entrants.RWQueue, Metric: figures.Writers, Holds: 7, Most: 1.3},
		},
	},
	{
		name: "reads", title: "8 readers of one process, one key, no hold", workers: 1,
		job:    work.Job{Goroutines: 8, Every: seldom},
		who:    []string{entrants.RWReuse, entrants.RWMutex, entrants.Readers, entrants.Sync},
		shown:  append([]figures.Metric{figures.Rate}, cost...),
		rounds: 5, warm: 200 * ms, run: 500 * ms,
		goals: []figures.Goal{
			{Ours: entrants.RWReuse, Metric: figures.Rate, Over: one(entrants.Readers), Least: 20},
			{Ours: entrants.RWReuse, Metric: figures.Requests, Most: .01},
		},
	},
	{
		// A waiter waits for 64 holds, 10 at a time: as long as 6.4 holds.
		name: "sem10", title: "semaphore of 10, 4 processes x 16 goroutines, 5 ms", workers: 4,
		job: work.Job{Goroutines: 16, Permits: 10, Hold: 5 * ms},
		who: []string{entrants.SemQueue, entrants.Semaphore, entrants.Counting}, shown: turns,
		rounds: 4, warm: time.Second, run: 4 * time.Second,
		goals: []figures.Goal{
			{Ours: entrants.SemQueue, Metric: figures.P99, Holds: 6.4, Most: 1.2},
			{Ours: entrants.SemQueue, Metric: figures.Requests, Most: 2},
		},
	},
	{
		name: "handover", title: "hand-over between 2 processes, 30 ms", workers: 2, paired: true,
		// The pause is longer than a poll interval, but shorter than a hold: a process always waits while the other holds.
		job:    work.Job{Goroutines: 1, Writers: 1, Permits: 1, Hold: 30 * ms, Think: 20 * ms, Spans: true},
		who:    []string{entrants.Queue, entrants.SemQueue, entrants.RWQueue, entrants.Bare, entrants.RedsyncEager, entrants.Redislock, entrants.Rueidislock, entrants.Ping, entrants.List, entrants.Message},
		shown:  []figures.Metric{figures.Handover},
		rounds: 4, warm: 300 * ms, run: 2500 * ms,
		goals: []figures.Goal{
			{Ours: entrants.Queue, Metric: figures.Handover, Over: one(entrants.Ping), Most: 1.7},
			{Ours: entrants.SemQueue, Metric: figures.Handover, Over: one(entrants.Ping), Most: 1.7},
			{Ours: entrants.RWQueue, Metric: figures.Handover, Over: one(entrants.Ping), Most: 1.7},
		},
	},
	{
		name: "waiting", title: "10,000 goroutines wait for one held key", workers: 1,
		job: work.Job{Kind: work.Waiting, Goroutines: crowd}, shown: kept,
		who:    []string{entrants.Redimutex, entrants.Queue, entrants.Bare, entrants.Redsync, entrants.Redislock, entrants.Rueidislock},
		rounds: 1, warm: 2 * time.Second, run: 3 * time.Second,
		goals: []figures.Goal{
			{Ours: entrants.Redimutex, Metric: figures.Polls, Most: 20},
			{Ours: entrants.Queue, Metric: figures.Polls, Most: 20},
		},
	},
	held("held10k", "10,000 held locks, TTL 30 s", entrants.Redimutex, 3, work.Job{Goroutines: crowd, Own: true}),
	held("held100k", "100,000 held locks, TTL 30 s", entrants.Redimutex, 1, work.Job{Goroutines: 10 * crowd, Own: true}),
	held("permits10k", "10,000 held permits, TTL 30 s", entrants.Semaphore, 3, work.Job{Goroutines: crowd, Permits: crowd}),
	fiveServers("redlock", "1 goroutine, own key, 5 servers here", 0),
	fiveServers("redlock1ms", "1 goroutine, own key, 5 servers 1 ms away", ms),
}

// documentedPool is the case of a pool as the documentation of redigo makes it.
func documentedPool(name, title string, busy bool) trial {
	return trial{
		name: name, title: title, workers: 1, busy: busy, paired: true,
		job: work.Job{Goroutines: 1, Own: true, Every: seldom},
		who: []string{entrants.Plain, entrants.RedsyncPlain}, shown: costAlone,
		rounds: 12, warm: 150 * ms, run: 500 * ms,
		goals: []figures.Goal{{Ours: entrants.Plain, Metric: figures.Rate, Over: one(entrants.RedsyncPlain), Least: 1}},
	}
}

// processes is the case of n processes with one goroutine each.
func processes(name, title string, n int) trial {
	return trial{
		name: name, title: title, workers: n,
		job: work.Job{Goroutines: 1, Every: seldom},
		who: with(libs[:2], entrants.Queue, entrants.Redislock, entrants.Rueidislock), shown: fairness,
		rounds: 3, warm: 500 * ms, run: 1500 * ms,
		goals: []figures.Goal{{Ours: entrants.Queue, Metric: figures.Requests, Most: 4}},
	}
}

// held is the case of locks that one process holds. Each is renewed every 10 s, so once during the measurement.
func held(name, title, who string, rounds int, job work.Job) trial {
	job.Kind, job.TTL = work.Held, 30*time.Second
	percent := max(1, float64(job.Goroutines)/crowd)
	return trial{
		name: name, title: title, workers: 1, job: job, who: one(who), shown: kept, paired: name == "held10k",
		rounds: rounds, warm: 4 * time.Second, run: 10 * time.Second,
		goals: []figures.Goal{
			{Ours: who, Metric: figures.Goroutines, Most: 10},
			{Ours: who, Metric: figures.CPU, Most: percent},
			{Ours: who, Metric: figures.Bytes, Most: 600},
		},
	}
}

// fiveServers compares Redlock with the least that any lock must send to five servers, and with one server. There is a pause
// after each pair: the case measures how long a pair takes. A rate would measure the cores, which all servers share.
func fiveServers(name, title string, away time.Duration) trial {
	return trial{
		name: name, title: title, workers: 1, servers: servers, away: away, paired: away == 0,
		job: work.Job{Goroutines: 1, Own: true, Think: 2 * ms},
		who: []string{entrants.Redlock, entrants.Pipelines, entrants.Redimutex}, shown: costAlone,
		rounds: 7, warm: 300 * ms, run: time.Second,
		goals: []figures.Goal{{Ours: entrants.Redlock, Metric: figures.Pair, Over: one(entrants.Pipelines), Most: 1.5}},
	}
}
