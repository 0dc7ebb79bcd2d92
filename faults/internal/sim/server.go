package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A server is a simulated Redis: a clock, the few commands that locks need, and faults.
type server struct {
	world  *world
	number int
	faults *rand.Rand
	rate   float64       // how fast its clock runs
	phase  time.Duration // of the clock's corrections, with Slewed
	offset time.Duration // by how much its clock is ahead at the beginning, and after jumps

	mu         sync.Mutex // one command at a time
	data       map[string]*value
	expires    map[string]int64 // in ms on its own clock
	known      map[string]bool  // scripts by hash
	boots      int
	down       bool
	hungUntil  time.Duration
	backlog    []unread // the messages that have arrived while it hangs
	conns      []*conn  // the open connections, in the order of their dials
	subscribed map[string][]*conn
	astray     map[string][]*conn // connections to a replica
	unsent     bool               // the next commands of the running script don't go to the replicas
}

// A value is a string or a sorted set.
type value struct {
	text string
	set  *sortedSet
}

// bubbleYear is the server's clock at the beginning, in µs: some day of 2001.
const bubbleYear = 1_000_000_000_000_000

func newServer(w *world, number int) *server {
	s := &server{world: w, number: number, faults: w.stream("server", number), subscribed: make(map[string][]*conn), astray: make(map[string][]*conn)}
	s.rate = 1 + w.Weather.Drift*(2*s.faults.Float64()-1)
	if w.Weather.Slewed {
		s.phase = between(s.faults, 0, 2*slew)
	}
	if w.Weather.Offset > 0 {
		s.offset = between(s.faults, 0, w.Weather.Offset)
	}
	s.forget()
	s.plan()
	return s
}

// forget loses all data.
func (s *server) forget() {
	s.data, s.expires, s.known = make(map[string]*value), make(map[string]int64), make(map[string]bool)
}

// slew is how long the error of a corrected clock grows, and then how long it shrinks.
const slew = 100 * time.Millisecond

// clock is the server's time in µs.
func (s *server) clock() int64 {
	now := s.world.now()
	wrong := now // for how long the clock has run at a wrong rate
	if s.world.Weather.Slewed {
		if wrong = (now + s.phase) % (2 * slew); wrong > slew {
			wrong = 2*slew - wrong
		}
	}
	return bubbleYear + (now + time.Duration(float64(wrong)*(s.rate-1)) + s.offset).Microseconds()
}

// plan draws the next fault, which happens some time later.
func (s *server) plan() {
	w := s.world.Weather
	all := w.Hang + w.Crash + w.Amnesia + w.Jump + w.Back
	if all == 0 {
		return
	}
	kind := s.faults.IntN(all)
	lasts := between(s.faults, ttl/20, 2*ttl)
	s.world.at(s.world.now()+exponential(s.faults, w.Calm)+time.Millisecond, func() {
		if s.world.ended() {
			return
		}
		switch {
		case kind < w.Hang:
			s.hang(lasts)
		case kind < w.Hang+w.Crash:
			s.crash(lasts, true)
		case kind < w.Hang+w.Crash+w.Amnesia:
			s.crash(lasts/4, false)
		case kind < w.Hang+w.Crash+w.Amnesia+w.Jump:
			s.jump(ttl)
			s.plan()
		default:
			s.jump(-between(s.faults, ttl/20, 3*time.Second))
			s.plan()
		}
	})
}

// hang keeps the server from doing anything for a while. Its operating system still accepts connections and data.
func (s *server) hang(d time.Duration) {
	w := s.world
	from := w.now()
	w.note("server", s.number, 0, "hangs")
	w.ill(s.number, from, from+d, "hang")
	s.mu.Lock()
	s.hungUntil = from + d
	s.mu.Unlock()
	w.at(from+d, func() {
		s.mu.Lock()
		waiting := s.backlog
		s.backlog, s.hungUntil = nil, 0
		s.mu.Unlock()
		// The server reads one connection after the other, in a random order.
		order := make(map[*conn]int)
		for _, u := range waiting {
			if _, known := order[u.from]; !known {
				order[u.from] = s.faults.Int()
			}
		}
		slices.SortStableFunc(waiting, func(a, b unread) int { return cmp.Compare(order[a.from], order[b.from]) })
		for _, u := range waiting {
			u.read()
		}
		s.plan()
	})
}

// An unread message is one that arrived while the server hangs.
type unread struct {
	from *conn
	read func()
}

// hangs reports whether the server hangs now and will still hang then.
func (s *server) hangs(then time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return then < s.hungUntil
}

// crash ends the server, and starts it again after a while.
func (s *server) crash(d time.Duration, keep bool) {
	w := s.world
	from := w.now()
	kind := "crash"
	if !keep {
		kind = "amnesia"
	}
	w.note("server", s.number, 0, kind)
	w.ill(s.number, from, from+d, kind)
	s.mu.Lock()
	s.down = true
	s.boots++
	broken := s.conns
	s.conns = nil
	clear(s.subscribed)
	clear(s.astray)
	if !keep {
		s.forget()
	}
	clear(s.known)
	s.mu.Unlock()
	for _, c := range broken { // one after the other: their clients dial again, and draw in this order how long they wait
		w.at(w.now()+1, func() { c.fail(errReset) })
	}
	w.at(from+d, func() {
		s.mu.Lock()
		s.down = false
		s.mu.Unlock()
		w.note("server", s.number, 0, "is back")
		s.plan()
	})
}

// jump sets the clock ahead, or back.
func (s *server) jump(d time.Duration) {
	w := s.world
	w.note("server", s.number, 0, "jumps")
	w.ill(s.number, w.now(), w.now()+time.Millisecond, "jump")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
}

// live returns the value of a key that has not expired. The caller holds s.mu.
func (s *server) live(key string) *value {
	if end, ok := s.expires[key]; ok && s.clock()/1000 > end {
		delete(s.data, key)
		delete(s.expires, key)
	}
	return s.data[key]
}

// set stores a string. If px is not empty, the key expires in px ms. The caller holds s.mu.
func (s *server) set(key, text, px string) {
	s.data[key] = &value{text: text}
	delete(s.expires, key)
	if ms, err := strconv.ParseInt(px, 10, 64); err == nil {
		s.expires[key] = s.clock()/1000 + ms
	}
}
