package server

import (
	"strconv"
	"sync"
)

// A Kind is what a lock is on a server: a file of lua/ that says who may enter, and how a token comes, stays and goes.
// All else (deadlines, fences, the queue, hand-offs) is written once, for every kind.
type Kind struct {
	Name   string
	Shared bool // many of one process may be in at a time

	Want    string   // what a caller says that it wants, if that is always the same
	keys    []string // the kinds of siblings that belong to the lock
	Shows   bool     // waiters show themselves to the others
	plain   bool     // SET NX PX takes it
	scripts func() *scripts
}

// The kinds of locks.
var (
	Mutex     = &Kind{Name: "mutex", Want: "m", plain: true, scripts: load("mutex", "simple")}
	Semaphore = &Kind{Name: "semaphore", Shared: true, scripts: load("semaphore")}
	Writer    = &Kind{Name: "writer", Want: "w", keys: phases, Shows: true, scripts: readersWriters}
	Reader    = &Kind{Name: "reader", Shared: true, Want: "r", keys: phases, Shows: true, scripts: readersWriters}

	phases         = []string{"readers", "writers", "waiting", "entitled"}
	readersWriters = load("rwmutex")
)

// Permits is what a caller of a semaphore wants.
func Permits(n int) string { return strconv.Itoa(n) }

// scripts are those of a kind. Of two, the second is for locks with a queue.
type scripts struct {
	acquire, release, downgrade [2]script
	extend, inUse               script
}

// load joins the scripts of a kind when they are needed. first stands in front of its release without a queue.
func load(kind string, first ...string) func() *scripts {
	return sync.OnceValue(func() *scripts {
		s := new(scripts)
		for i, queue := range []string{"noqueue", "queue"} {
			s.acquire[i] = newScript("head", "holder", kind, "demoted", "fence", "guard", queue, "acquire")
			s.release[i] = newScript(append(first, "head", "holder", kind, "demoted", "fence", queue, "release")...)
			first = nil
			s.downgrade[i] = newScript("head", "holder", kind, "demoted", "fence", queue, "downgrade")
		}
		s.extend = newScript("head", "holder", kind, "demoted", "extend")
		s.inUse = newScript("head", "holder", kind, "inuse")
		return s
	})
}

var (
	swapScript  = newScript("head", "holder", "demoted", "fence", "guard", "swap")
	raiseScript = newScript("raise")
)

func queued(queue bool) int {
	if queue {
		return 1
	}
	return 0
}
