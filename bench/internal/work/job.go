// Package work is the worker process: it runs a library on one job at a time, and measures.
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
	Waiting Kind = "waiting" // goroutines wait for a lock that another process keeps
	Held    Kind = "held"    // each goroutine's lock is taken, and kept
)

// A Job is one round of one library in one process.
type Job struct {
	Kind       Kind // empty: Load
	Library    string
	Addrs      []string // of the servers
	Key        string   // of the lock, or what the keys begin with
	Worker     int      // the number of the process, from 0
	Goroutines int
	Writers    int           // so many of the goroutines are writers; the others are readers
	Permits    int           // of a semaphore
	Own        bool          // each goroutine has a key of its own
	TTL        time.Duration // of the locks
	Hold       time.Duration // from Lock to Unlock
	Think      time.Duration // from Unlock to the next Lock
	Warm       time.Duration // before it is measured
	Run        time.Duration // while it is measured
	Every      int           // one wait in so many is timed, where timing them all would cost as much as they do
	Spans      bool          // report every hold, not only how many
}

// SetUp is about how long it takes to have the locks that are held, and to release them.
func (j *Job) SetUp() time.Duration {
	if j.Kind != Held {
		return 0
	}
	return time.Duration(j.Goroutines) * 100 * time.Microsecond
}

// A Result is what one process has seen while it was measured.
type Result struct {
	Elapsed  time.Duration
	Holds    []int64         // of each goroutine
	Held     time.Duration   // all of them together, where they last
	Waits    stats.Histogram // from asking to having; those that the end cut short count with what they had
	Writers  stats.Histogram // the waits of writers, where there are some
	Pairs    stats.Histogram // from asking to having unlocked, of keys that no other caller wants
	Requests int64           // sent to the server
	Mallocs  uint64          // allocations of the whole process
	CPU      time.Duration   // of the whole process, user and system
	Server   time.Duration   // how long the server has worked; told by the first process alone

	Goroutines int   // more than before, without those that wait or hold
	Bytes      int64 // of memory more than before, stacks included

	Spans []Span

	Missing  bool   // this version of the library does not have what was asked for
	Failures int64  // calls that failed, other than at the end
	Failure  string // the last of them
	Error    string // why there is no result
}

// Add adds what another has counted: a goroutine, or a process.
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

// A Span is one hold, in ns since 1970: processes on one machine share that clock.
type Span struct {
	Goroutine            int
	Asked, Got, Released int64
}

// An answer is a line from the worker: that it is ready, or the result.
type answer struct {
	Ready  bool    `json:",omitempty"`
	Result *Result `json:",omitempty"`
}

// An order is a line to the worker: what to do, or when to start.
type order struct {
	Job   *Job  `json:",omitempty"`
	Start int64 `json:",omitempty"` // in ns since 1970
}
