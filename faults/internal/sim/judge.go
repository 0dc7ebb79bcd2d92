package sim

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A judge sees all holds from outside, in true time. Its mutex is never locked after that of the world.
type judge struct {
	world *world

	mu     sync.Mutex
	report Report
	wanted map[string]time.Duration // by token: when it was first sent to a server
	last   map[string]time.Duration // by token: when a command that creates or keeps it was last sent, or its hold ended
	tried  map[string]time.Duration // by token: when a server last executed a try of it, perhaps a late one
	late   map[string]bool          // by token: its SET was executed long after it was sent
	alive  []*hold                  // the holds that were not released yet
	byKey  map[string][]*hold       // the holds with a fence, in order of time
	past   []granted                // in order of time, each with the highest fence so far
	wrote  []*hold                  // the last holds whose writes the resource accepted
	high   int64                    // the highest fence that the resource has seen
	scenes []Stretch
}

// A hold is one hold of the lock, as its holder sees it.
type hold struct {
	worker  int
	token   string
	keys    []string // nil: the one key that all workers want; see kinds.go
	reads   bool
	writes  bool          // reads and writes: of an RWMutex
	permits int           // more than 0: of a semaphore with this number of permits
	span    time.Duration // the longest TTL that the holder asked for; 0: ttl
	fence   int64
	fenced  bool
	began   time.Duration // when its call began to ask for it
	wanted  time.Duration // when its token was first sent to a server, or began, whichever is later
	granted time.Duration
	dead    bool // its lease was seen to be invalid
	died    time.Duration
	clash   bool // another lease was valid when it was granted
	valid   func() bool
	until   func() time.Time // the end of the validity, to find wrong renewals; nil: not judged
	lasts   func() time.Time // the end of the validity, to find extensions that shorten it; nil: not judged
	seen    time.Time        // what lasts returned the last time
	rival   time.Duration    // when a caller got the lock that asked for it after this hold was granted; 0: none did
	gone    map[int]bool     // servers on which its key has expired
}

type granted struct {
	at   time.Duration
	high int64
	who  int
}

// tokenIn returns the token that a command is about, or "".
func tokenIn(args []string) string {
	switch {
	case args[0] == "SET" && len(args) > 2:
		return args[2]
	case strings.HasPrefix(args[0], "EVAL"):
		keys, err := strconv.Atoi(args[2])
		if err == nil && len(args) > 3+keys {
			return args[3+keys]
		}
	}
	return ""
}

// sent records when a token was first sent to a server, and when a command was last sent that may create it or keep it there.
func (j *judge) sent(args []string) {
	token := tokenIn(args)
	if token == "" {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, known := j.wanted[token]; !known {
		j.wanted[token] = j.world.now()
	}
	if creates(args) {
		j.last[token] = j.world.now()
	}
}

// executed records that a server executes a command, if the command may give the lock to its token. A SET is the first command
// of its token, so j.wanted says when it was sent.
func (j *judge) executed(args []string) {
	try := grants(args)
	j.mu.Lock()
	defer j.mu.Unlock()
	token, now := tokenIn(args), j.world.now()
	if args[0] == "SET" {
		j.late[token] = now-j.wanted[token] > 3*nodeTimeout
	} else if try {
		j.tried[token] = now
	}
}

// wrong counts a violation, and keeps the first one in words. The caller holds j.mu.
func (j *judge) wrong(count *int, format string, args ...any) {
	*count++
	if j.report.First == "" {
		j.report.First = fmt.Sprintf("episode seed %d, %v: ", j.world.seed, j.world.now()) + fmt.Sprintf(format, args...)
	}
}

// acquired records and judges a new hold. No other valid hold may exclude it, and its fence must be higher than that of every
// hold that was granted before this one was asked for.
func (j *judge) acquired(h *hold) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h.granted = j.world.now()
	h.wanted = max(j.wanted[h.token], h.began)
	j.report.Acquired++
	j.look()
	for _, other := range j.alive {
		if !other.dead && h.excludes(other) {
			if h.wanted > other.granted { // otherwise the server may have granted h first, and then its clock jumped
				other.rival = h.granted
			}
			if j.robbed(h) || j.robbed(other) {
				continue
			}
			h.clash = true
			j.wrong(&j.report.Overlaps, "worker %d was given the lock while the lease of worker %d was valid", h.worker, other.worker)
		}
	}
	if h.permits > 0 && j.crowd(h) > h.permits {
		j.wrong(&j.report.Overlaps, "worker %d was given a permit while %d others had one", h.worker, h.permits)
	}
	j.alive = append(j.alive, h)
	switch {
	case !h.fenced:
		return
	case h.keys != nil:
		j.fences(h)
		return
	}
	top := granted{h.granted, h.fence, h.worker}
	for i := len(j.past) - 1; i >= 0; i-- {
		if j.past[i].at < h.wanted {
			if before := j.past[i]; before.high >= h.fence {
				j.wrong(&j.report.Inverted, "worker %d got the fence %d although worker %d had %d before", h.worker, h.fence, before.who, before.high)
			}
			break
		}
	}
	if n := len(j.past); n > 0 && j.past[n-1].high > top.high {
		top.high, top.who = j.past[n-1].high, j.past[n-1].who
	}
	j.past = append(j.past, top)
}

// robbed reports whether a foreign client has deleted a key of the hold since the hold was asked for, perhaps before the
// holder knew that it had the lock.
func (j *judge) robbed(h *hold) bool {
	for _, key := range h.keys {
		if j.world.deleted(key) > h.wanted {
			return true
		}
	}
	return false
}

// look finds out which leases are valid. A lease that was invalid must never be valid again. A lease must not be renewed after
// a later caller has got the lock: a single server knows by then that the lock has a new holder. The caller holds j.mu.
func (j *judge) look() {
	for _, h := range j.alive {
		valid := h.valid()
		if valid && h.dead {
			j.wrong(&j.report.Revived, "the lease of worker %d was invalid, and is valid again", h.worker)
		}
		if !valid && !h.dead {
			j.report.Lost++
			h.died = j.world.now()
		}
		span := lasts
		if h.span > 0 {
			span = h.span - h.span/100 - 2*time.Millisecond
		}
		if j.robbed(h) && j.tried[h.token] > h.rival { // after a foreign client deleted the lock, a late try took it again
			h.rival = 0
		}
		if h.rival > 0 && h.until != nil && h.until().Add(-span).Sub(j.world.began) > h.rival {
			j.wrong(&j.report.Prolonged, "the lease of worker %d was renewed although another had got the lock meanwhile", h.worker)
			h.rival = 0
		}
		if h.lasts != nil && valid {
			until := h.lasts()
			if until.Before(h.seen) && h.valid() {
				j.wrong(&j.report.Cut, "the lease of worker %d came to end %v sooner", h.worker, h.seen.Sub(until))
			}
			h.seen = until
		}
		h.dead = !valid
	}
}

// released records that the holder is about to release the lock.
func (j *judge) released(h *hold) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.look()
	j.last[h.token] = j.world.now()
	for i, other := range j.alive {
		if other == h {
			j.alive = append(j.alive[:i:i], j.alive[i+1:]...)
		}
	}
	j.scene(h)
}

// scene adds a hold to the picture. The caller holds j.mu.
func (j *judge) scene(h *hold) {
	if h.granted >= sceneLength {
		return
	}
	kind, end := "held", j.world.now()
	if h.clash {
		kind = "clash"
	}
	if h.dead {
		j.scenes = append(j.scenes, Stretch{h.worker, h.died, end, "lost"})
		end = h.died
	}
	j.scenes = append(j.scenes, Stretch{h.worker, h.granted, end, kind})
}

// revived notes that something brought an expired lease back.
func (j *judge) revived(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wrong(&j.report.Revived, format, args...)
}

// forget ends all holds.
func (j *judge) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.look()
	j.alive = nil
}

// write judges a write to a resource that checks fences, by a holder that believes that it has the lock. The write is stale if
// the resource accepts it after a write of another holder, which asked for the lock only when h had it already.
func (j *judge) write(h *hold) {
	if j.world.Kinds { // here only foreign clients call write
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.look()
	j.report.Writes++
	if h.fence < j.high {
		j.report.Refused++
		return
	}
	j.high = max(j.high, h.fence)
	for _, other := range j.wrote {
		if other != h && other.wanted > h.granted {
			j.wrong(&j.report.Stale, "worker %d wrote after worker %d, who got the lock later", h.worker, other.worker)
			break
		}
	}
	j.wrote = append(j.wrote, h)
	if len(j.wrote) > 64 {
		j.wrote = j.wrote[32:]
	}
}
