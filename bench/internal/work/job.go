// Package work is the worker process. It does one job at a time with one library, and measures.
package work

import (
	"cmp"
	"time"

	"github.com/redimutex/redimutex/internal/lab/stats"
)

// A Kind is what a job does.
type Kind string

const (
	Load    Kind = "load"    // goroutines lock and unlock as often as they can
	Waiting Kind = "waiting" // goroutines wait for a lock that stays with another holder
	Held    Kind = "held"    // each goroutine takes a lock and keeps it
)

// A Job is one round of one library in one process.
type Job struct {
	Kind       Kind // empty: Load
	Library    string
	Addrs      []string // of the servers
	Key        string   // of the lock, or what the keys begin with
	Worker     int      // the number of the process, from 0
	Goroutines int
	Writers    int           // how many of the goroutines are writers; the others are readers
	Permits    int           // of a semaphore
	Own        bool          // each goroutine has a key of its own
	TTL        time.Duration // of the locks
	Hold       time.Duration // from Lock to Unlock
	Think      time.Duration // from Unlock to the next Lock
	Warm       time.Duration // before the measurement
	Run        time.Duration // the measurement
	Every      int           // of this many locks one is timed, where timing each would cost as much as the locks do; 0: each
	Spans      bool          // report every hold, not only how many
}

// SetUp returns about how long the job takes to acquire the locks that it holds, and to release them.
func (j *Job) SetUp() time.Duration {
	if j.Kind != Held {
		return 0
	}
	return time.Duration(j.Goroutines) * 100 * time.Microsecond
}

// A Result is what one process counted during the measurement.
type Result struct {
	Elapsed  time.Duration
	Holds    []int64         // of each goroutine
	Held     time.Duration   // the sum of all holds; 0 if Job.Hold is 0
	Waits    stats.Histogram // from asking to the grant; a wait that the end of the job cuts short counts for its time until then
	Writers  stats.Histogram // the waits of writers, which Waits leaves out
	Pairs    stats.Histogram // from asking to the end of Unlock; only with Job.Own
	Requests int64           // sent to the server
	Mallocs  uint64          // allocations of the whole process
	CPU      time.Duration   // of the whole process, user and system
	Server   time.Duration   // CPU time of the server; only the first process reports it

	Goroutines int   // how many more than before, without those of the callers
	Bytes      int64 // how much more memory than before, stacks included

	Spans []Span

	Missing  bool   // this version of redimutex can't do the job
	Failures int64  // failed calls, except those that failed because the job ended
	Failure  string // the last of them
	Error    string // why there is no result
}

// Add adds what another goroutine or process counted.
func (r *Result) Add(o *Result) {
	r.Holds = append(r.Holds, o.Holds...)
	r.Held += o.Held
	r.Requests += o.Requests
	r.Mallocs += o.Mallocs
	r.CPU += o.CPU
	r.Server += o.Server
	for _, h := range []struct {
		sum  *stats.Histogram
		more stats.Histogram
	}{{&r.Waits, o.Waits}, {&r.Writers, o.Writers}, {&r.Pairs, o.Pairs}} {
		if *h.sum == nil {
			*h.sum = make(stats.Histogram)
		}
		h.sum.Merge(h.more)
	}
	r.Spans = append(r.Spans, o.Spans...)
	r.Failures += o.Failures
	r.Failure = cmp.Or(o.Failure, r.Failure)
}

// A Span is one hold, in ns since 1970. The processes of one machine share that clock.
type Span struct {
	Goroutine            int
	Asked, Got, Released int64
}

// An answer is a line from the worker: that it is ready, or its result.
type answer struct {
	Ready  bool    `json:",omitempty"`
	Result *Result `json:",omitempty"`
}

// An order is a line to the worker: either what to do, or when to start.
type order struct {
	Job   *Job  `json:",omitempty"`
	Start int64 `json:",omitempty"` // in ns since 1970
}
