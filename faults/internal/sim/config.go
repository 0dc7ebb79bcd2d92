package sim

import (
	"reflect"
	"time"
)

// A Config says what is simulated.
type Config struct {
	Name    string // stands in the table
	Seed    uint64
	Want    int           // acquisitions
	Least   int           // 0, or so many will do if Time is over
	Time    time.Duration // real time to be used
	Library string        // "redimutex" or "redsync"
	Servers int

	Renew, Fencing, Guard, Queue, Multiplex bool

	TTL       time.Duration // 0: ttl; more: locks that are left behind are looked for; see orphans.go
	Kinds     bool          // all kinds of locks; see kinds.go. Of several servers, those that are kept by several
	Only      string        // of them those that begin with this key
	Counting  bool          // and permits, which the library refuses there
	Few       bool          // one worker a client, which rests between two holds: most tries find the lock free
	Foreign   bool          // the pools are none that the library knows to keep deadlines
	Mixed     bool          // Mutexes of several options share the key, and leases are extended; see mixed.go
	Strangers bool          // two of the workers use no library, or with Kinds three; one server
	Astray    bool          // some listeners sit at a replica, and can't know it

	Weather Weather
	Plant   Plant
	Beyond  bool // more than the library promises to withstand: it is not judged
	Lapse   bool // every hold is made to lapse; see lapse.go
	Endure  bool // one hold lasts while servers restart; see endure.go
	Trace   bool // keep all events of the first episode
}

// A Weather is which faults there are, and how many.
type Weather struct {
	Drift   float64       // the servers' clocks run faster or slower by up to this share
	Slewed  bool          // they are corrected, as NTP does it, and are never off by more than a millisecond
	Offset  time.Duration // and are off by up to this
	Slow    float64       // share of the messages that take long, up to two TTLs
	Late    float64       // share of those that take up to two node timeouts
	Break   float64       // share of the exchanges that end with a broken connection
	Calm    time.Duration // mean time between two faults of a server, and of a link
	Hang    int           // weights of the faults of a server: it hangs,
	Crash   int           // it is down and comes back with its data,
	Amnesia int           // without them,
	Jump    int           // its clock jumps ahead by a TTL,
	Back    int           // its clock is set back by up to 3 s
	Cut     bool          // links between a client and a server are cut and heal
	Long    float64       // share of the holds that last about as long as a lease
	Pause   float64       // share of the holds in which the holder is paused, up to three TTLs
	Cancel  float64       // share of the calls that are cancelled early
	Rob     float64       // share of the tries of a foreign client that delete the lock first, whoever has it
}

// A Plant is a bug: every script in which From occurs is run with To in its place.
type Plant struct {
	From, To string
	And      *Plant
}

// A Report is what came of a simulation.
type Report struct {
	Episodes, Acquired, Renewed, Lost int
	Overlaps, Revived, Inverted       int // what must not be; Inverted: a fence is not higher than an earlier one
	Cut                               int // leases that came to end sooner; must not be either
	Prolonged                         int // leases that were renewed although another had got the lock; of one server must not be either
	Writes, Refused, Stale            int // at the resource that checks fences
	Lapsed                            int // holds that the simulation made lapse
	Orphans                           int // locks that no process has any more
	Restarts, Fallen                  int // of servers during a hold; after so many it was lost
	Events                            int
	Hash                              uint64 // of all that happened, and when
	Virtual, Real                     time.Duration
	First                             string // the first thing that must not be, in words
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

// A Stretch is something that lasted.
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
