package sim

import (
	"reflect"
	"time"
)

// A Config says what is simulated.
type Config struct {
	Name    string // in the table
	Seed    uint64
	Want    int           // how many acquisitions; with Lapse how many lapses, with Endure how many restarts
	Least   int           // 0, or how many are enough once Time is over
	Time    time.Duration // real time; unfinished says how Want, Least and Time end a simulation
	Library string        // "redimutex" or "redsync"
	Servers int

	Renew, Fencing, Guard, Queue, Multiplex bool

	TTL       time.Duration // 0: the constant ttl; otherwise locks that are left behind are looked for; see orphans.go
	Kinds     bool          // workers use all kinds of locks that the library keeps on this number of servers; see kinds.go
	Only      string        // with Kinds: only locks whose first key is this one
	Counting  bool          // with Kinds: semaphores even on several servers, which the library refuses
	Few       bool          // one worker a client, which rests between two holds, so that most tries find the lock free
	Foreign   bool          // the library does not know that the pools keep deadlines
	Mixed     bool          // Mutexes of several options share the key, and leases are extended; see mixed.go
	Strangers bool          // two workers, or three with Kinds, use no library; for one server
	Astray    bool          // some subscribers are connected to a replica, and can't find that out

	Weather Weather
	Plant   Plant
	Beyond  bool // the faults exceed what the library promises to withstand, so the result is not judged
	Lapse   bool // the simulation makes every hold lapse; see lapse.go
	Endure  bool // one hold lasts while servers restart; see endure.go
	Trace   bool // keep all events of the first episode
}

// A Weather says which faults happen, and how often.
type Weather struct {
	Drift   float64       // the servers' clocks run faster or slower by up to this share
	Slewed  bool          // the clocks are corrected, as NTP does it, and never off by more than a millisecond
	Offset  time.Duration // at the beginning, the servers' clocks are ahead by up to this
	Slow    float64       // share of the messages that take up to two TTLs
	Late    float64       // share of the messages that take up to two node timeouts
	Break   float64       // share of the exchanges that end with a broken connection
	Calm    time.Duration // mean time between two faults of a server; between two cuts of a link, four times as long
	Hang    int           // weight of this fault of a server: it hangs
	Crash   int           // weight: it is down, and comes back with its data
	Amnesia int           // weight: it is down, and comes back without its data
	Jump    int           // weight: its clock jumps ahead by a TTL
	Back    int           // weight: its clock is set back by up to 3 s
	Cut     bool          // links between a client and a server are cut and heal
	Long    float64       // share of the holds that last about as long as a lease
	Pause   float64       // share of the holds in which the holder is paused, for up to three TTLs
	Cancel  float64       // share of the calls that are cancelled early
	Rob     float64       // share of a foreign client's tries that delete the lock first, no matter who holds it
}

// A Plant is a bug: in every script, To takes the place of From. And is a further part of the bug.
type Plant struct {
	From, To string
	And      *Plant
}

// A Report is the outcome of a simulation.
type Report struct {
	Episodes, Acquired, Renewed, Lost int
	Overlaps, Revived, Inverted       int // violations; Inverted: a fence is not higher than an earlier one
	Cut                               int // violations: the end of a lease came nearer
	Prolonged                         int // leases renewed although a later caller had the lock; with one server, violations
	Writes, Refused, Stale            int // writes to the resource that checks fences
	Lapsed                            int // holds that the simulation made lapse
	Orphans                           int // locks on a server that no process has any more
	Restarts, Fallen                  int // restarts of servers during the hold; the restarts after which the lease was lost
	Events                            int
	Hash                              uint64 // of all events and their times
	Virtual, Real                     time.Duration
	First                             string // the first violation, in words
	Trace                             []string
	Picture                           *Scene
}

// A Scene is the beginning of the first episode, to be drawn.
type Scene struct {
	Until time.Duration
	Holds []Stretch // Lane: the worker
	Ills  []Stretch // Lane: the server
	Lanes int
}

// A Stretch is a hold or a fault in a Scene.
type Stretch struct {
	Lane     int
	From, To time.Duration
	Kind     string
}

// add adds all counts and times of o.
func (r *Report) add(o *Report) {
	sum, more := reflect.ValueOf(r).Elem(), reflect.ValueOf(o).Elem()
	for i := range sum.NumField() {
		if f := sum.Field(i); f.CanInt() {
			f.SetInt(f.Int() + more.Field(i).Int())
		}
	}
	r.Hash = r.Hash*0x100000001b3 + o.Hash
	if r.First == "" {
		r.First = o.First
	}
	if r.Picture == nil {
		r.Picture = o.Picture
	}
	if r.Trace == nil {
		r.Trace = o.Trace
	}
}
