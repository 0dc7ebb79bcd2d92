package main

import (
	"strconv"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/bench/internal/figures"
)

func procs(n int) string { return "procs" + strconv.Itoa(n) }

// redsyncs are its settings, of which the best counts.
var redsyncs = []string{entrants.Redsync, entrants.RedsyncEager, entrants.RedsyncGoRedis}

func rate(name string, libraries ...string) figures.One {
	return figures.One{Case: name, Metric: figures.Rate, Libraries: libraries}
}

func metric(name string, m figures.Metric, library string) figures.One {
	return figures.One{Case: name, Metric: m, Libraries: []string{library}}
}

const (
	atLeast = true
	atMost  = false
)

var goals = []figures.Goal{
	figures.NewGoal("1 goroutine, own key, LockContext", "rate / bare redigo", atLeast, 0.95,
		figures.Ratio(rate("own1", entrants.RedimutexCtx), rate("own1", entrants.Bare))),
	figures.NewGoal("", "rate / redislock", atLeast, 1,
		figures.Ratio(rate("own1", entrants.RedimutexCtx), rate("own1", entrants.Redislock))),
	figures.NewGoal("", "rate / redsync", atLeast, 1.2,
		figures.Ratio(rate("own1", entrants.RedimutexCtx), rate("own1", redsyncs...))),
	figures.NewGoal("the same, Do", "rate / bare redigo", atLeast, 0.9,
		figures.Ratio(rate("own1", entrants.RedimutexDo), rate("own1", entrants.Bare))),
	figures.NewGoal("the same, Lock", "rate / bare redigo", atLeast, 0.95,
		figures.Ratio(rate("own1", entrants.Redimutex), rate("own1", entrants.Bare))),
	figures.NewGoal("the same, LockContext, a pool as redigo has it", "rate / redsync over the same", atLeast, 1,
		figures.Ratio(rate("own1", entrants.RedimutexPlain), rate("own1", entrants.RedsyncPlain))),

	figures.NewGoal("64 goroutines, own keys, Multiplex", "rate / bare redigo", atLeast, 2.5,
		figures.Ratio(rate("own64", entrants.RedimutexMux), rate("own64", entrants.Bare))),
	figures.NewGoal("", "rate / redsync", atLeast, 3,
		figures.Ratio(rate("own64", entrants.RedimutexMux), rate("own64", redsyncs...))),
	figures.NewGoal("", "rate / rueidislock", atLeast, 2.5,
		figures.Ratio(rate("own64", entrants.RedimutexMux), rate("own64", entrants.Rueidislock))),
	figures.NewGoal("", "rate / a pipeline by hand", atLeast, 0.6,
		figures.Ratio(rate("own64", entrants.RedimutexMux), rate("own64", pipeline))),

	figures.NewGoal("4 x 8, one key, 5 ms hold, WithQueue", "p99 wait / 32 holds", atMost, 1.15,
		figures.Alone(metric("hold5", figures.P99, entrants.RedimutexQueue), workers*each*float64(hold.Milliseconds()))),
	figures.NewGoal("", "fewest/most holds of a goroutine", atLeast, 0.9,
		figures.Alone(metric("hold5", figures.Fairness, entrants.RedimutexQueue), 1)),
	figures.NewGoal("", "redsync's p99 wait / ours", atLeast, 15, figures.Ratio(
		figures.One{Case: "hold5", Metric: figures.P99, Libraries: redsyncs, Smallest: true},
		metric("hold5", figures.P99, entrants.RedimutexQueue))),

	figures.NewGoal("4 x 8, one key, no hold, WithQueue", "rate / PUBLISH to and fro", atLeast, 0.8,
		figures.Ratio(rate("nohold", entrants.RedimutexQueue), rate("nohold", toAndFro))),
	figures.NewGoal("", "fewest/most holds of a goroutine", atLeast, 0.9,
		figures.Alone(metric("nohold", figures.Fairness, entrants.RedimutexQueue), 1)),
	figures.NewGoal("", "requests a hold", atMost, 3,
		figures.Alone(metric("nohold", figures.Requests, entrants.RedimutexQueue), 1)),

	figures.NewGoal("16 processes, no hold, WithQueue", "requests a hold", atMost, 4,
		figures.Alone(metric(procs(16), figures.Requests, entrants.RedimutexQueue), 1)),
	figures.NewGoal("64 processes, no hold, WithQueue", "requests a hold", atMost, 4,
		figures.Alone(metric(procs(64), figures.Requests, entrants.RedimutexQueue), 1)),
	figures.NewGoal("", "rate / that of 4 processes", atLeast, 0.7,
		figures.Ratio(rate(procs(64), entrants.RedimutexQueue), rate(procs(4), entrants.RedimutexQueue))),

	figures.NewGoal("4 x 8, WithQueue, WithLeaseReuse(10 ms)", "rate / redsync", atLeast, 100,
		figures.Ratio(rate("nohold", entrants.RedimutexBoth), rate("nohold", redsyncs...))),
	figures.NewGoal("", "fewest/most holds of a goroutine", atLeast, 0.8,
		figures.Alone(metric("nohold", figures.Fairness, entrants.RedimutexBoth), 1)),

	figures.NewGoal("1 goroutine re-locking, WithLeaseReuse(10 ms)", "rate / bare redigo", atLeast, 200,
		figures.Ratio(rate("own1", entrants.RedimutexReuse), rate("own1", entrants.Bare))),
	figures.NewGoal("", "allocations a pair", atMost, 2,
		figures.Alone(metric("own1", figures.Allocs, entrants.RedimutexReuse), 1)),

	figures.NewGoal("10,000 goroutines wait for one key", "requests a second, defaults", atMost, 20,
		figures.Alone(metric("waiting", figures.Polls, entrants.Redimutex), 1)),
	figures.NewGoal("", "requests a second, WithQueue", atMost, 20,
		figures.Alone(metric("waiting", figures.Polls, entrants.RedimutexQueue), 1)),

	figures.NewGoal("10,000 held locks, TTL 30 s", "extra goroutines", atMost, 10,
		figures.Alone(metric("held10k", figures.Goroutines, entrants.Redimutex), 1)),
	figures.NewGoal("", "% of a core", atMost, 1,
		figures.Alone(metric("held10k", figures.CPU, entrants.Redimutex), 1)),
	figures.NewGoal("", "bytes each", atMost, 600,
		figures.Alone(metric("held10k", figures.Bytes, entrants.Redimutex), 1)),
	figures.NewGoal("100,000 held locks, TTL 30 s", "extra goroutines", atMost, 10,
		figures.Alone(metric("held100k", figures.Goroutines, entrants.Redimutex), 1)),
	figures.NewGoal("", "% of a core", atMost, 10,
		figures.Alone(metric("held100k", figures.CPU, entrants.Redimutex), 1)),
	figures.NewGoal("", "bytes each", atMost, 600,
		figures.Alone(metric("held100k", figures.Bytes, entrants.Redimutex), 1)),

	figures.NewGoal("hand-over between 2 processes, WithQueue", "p50 / PING's, as seldom", atMost, 1.7, figures.Ratio(
		metric("handover", figures.Handover, entrants.RedimutexQueue), metric("handover", figures.RoundTrip, coldPing))),

	figures.NewGoal("a waiter with a round trip of 20 ms in the queue", "rate of the others / without it, less its own turns", atLeast, 0.95,
		figures.Ratio(metric("far20", figures.NearRate, beside), metric("far20", figures.NearRate, alone))),
	figures.NewGoal("a waiter with a round trip of 200 ms in the queue", "rate of the others / without it, less its own turns", atLeast, 0.95,
		figures.Ratio(metric("far200", figures.NearRate, beside), metric("far200", figures.NearRate, alone))),

	figures.NewGoal("Redlock of 5, LockContext", "p50 of a pair / 1 server's, all on this machine", atMost, 1.5,
		figures.Ratio(metric("redlock", figures.Pair, entrants.RedimutexRedlock), metric("redlock", figures.Pair, entrants.RedimutexCtx))),
	figures.NewGoal("", "the same, each 1 ms away", atMost, 1.5,
		figures.Ratio(metric("redlock1ms", figures.Pair, entrants.RedimutexRedlock), metric("redlock1ms", figures.Pair, entrants.RedimutexCtx))),
}
