package watch

import (
	"fmt"
	"slices"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
)

// An event is what must have happened to a lock between two looks.
type event struct {
	Kind  string `json:"event"`
	Owner string `json:"owner"` // who holds it now
	From  string `json:"from"`  // who held it before

	at   time.Time
	text string
}

// The kinds of events; the help explains each.
const (
	firstHeld  = "held"
	firstFree  = "free"
	acquired   = "acquired"
	handedOver = "handed over"
	released   = "released"
	expired    = "expired"
	vanished   = "gone"
	cameWent   = "came, went"
	changed    = "changed"
	unreadable = "unreadable"
	unsure     = "unsure"
)

const (
	rateWindow  = 10 * time.Second
	keptEvents  = 5
	clockMargin = 5 * time.Millisecond // a TTL is in milliseconds, and a look takes time as well
)

// A history is what was seen of one lock. Its methods get the times of the looks, so that tests need not wait.
type history struct {
	lock    *sight.Lock  // of the last look, even if it failed or was unsure
	failure string       // why that look failed or was unsure; "" if it did not and was not
	told    bool         // an event has said so
	last    sight.Sight  // of the last look that did not fail
	most    inspect.View // the holder at that look
	seen    time.Time    // when that look was; zero before the first
	fences  []int64      // the highest fence seen on each server

	began time.Time     // the first look
	since time.Time     // the first look that saw the present state
	prior time.Time     // the look before it, which saw another state; zero if there was none
	scale time.Duration // the most time left that was seen of this hold

	handovers []time.Time // in the last rateWindow
	events    []event     // the last ones, oldest first
}

// look adds a survey's view of the lock, and returns what has happened since the one before.
func (h *history) look(r *sight.Lock, at time.Time, serversGone bool) (news []event) {
	h.lock = r
	if h.began.IsZero() {
		h.began = at
	}
	if r.Unsure || r.Failure() != nil {
		news = h.fail(r, at, serversGone)
	} else {
		news = h.compare(r, at)
		h.remember(r)
		h.last, h.most, h.seen, h.failure, h.told = r.Sight, r.Most, at, "", false
		h.scale = max(h.scale, h.left(at))
	}
	h.events = append(h.events, news...)
	h.events = h.events[max(len(h.events)-keptEvents, 0):]
	for len(h.handovers) > 0 && at.Sub(h.handovers[0]) > rateWindow {
		h.handovers = h.handovers[1:]
	}
	return news
}

// fail notes a look that failed or was unsure. Outages of servers are reported once for all locks; this reports only what
// concerns this lock.
func (h *history) fail(r *sight.Lock, at time.Time, serversGone bool) (news []event) {
	kind, reason, text := unsure, sight.Perhaps, sight.Perhaps
	if r.Failure() != nil {
		for _, s := range r.Servers {
			if s.Error != "" {
				kind, reason, text = unreadable, s.Error, "can't be read: "+s.Error
			}
		}
	}
	if !serversGone && reason != h.failure {
		h.told = true
		news = append(news, event{Kind: kind, at: at, text: text})
	}
	h.failure = reason
	return news
}

// compare returns what must have happened since the last look that did not fail.
func (h *history) compare(r *sight.Lock, at time.Time) (news []event) {
	was, is := h.last, r.Sight
	shared := was.Shared() && is.Shared()
	same := was.Held == is.Held && (!is.Held || h.most.Holder == r.Most.Holder && stays(h.most, r.Most))
	moved := h.fenced(r)
	failed := h.failure != ""
	holder := is.Holder() + withFence(is)
	add := func(kind, owner, from, text string) {
		news = append(news, event{kind, owner, from, at, text})
	}
	switch {
	case h.seen.IsZero(), h.told, failed && !same:
		if is.Held {
			add(firstHeld, is.Owner, "", "held by "+holder)
		} else {
			add(firstFree, "", "", "free")
		}
	case same && moved && !is.Held:
		add(cameWent, "", "", fmt.Sprintf("came and went: its fence is %d now", is.Fence))
	case shared && !same:
		add(changed, is.Owner, was.Owner, "held by others: "+holder)
	case shared && is.Holding != was.Holding:
		add(changed, is.Owner, was.Owner, "held by "+holder)
	case same:
	case !was.Held:
		add(acquired, is.Owner, "", "acquired by "+holder)
	case !is.Held:
		kind, text := h.ending(at)
		add(kind, "", was.Owner, text)
	default:
		if kind, text := h.ending(at); kind == expired {
			add(kind, "", was.Owner, text)
			add(acquired, is.Owner, "", "acquired by "+holder)
		} else {
			add(handedOver, is.Owner, was.Owner, "handed over from "+was.Holder()+" to "+holder)
		}
	}
	if (!same && is.Held || same && moved) && !h.seen.IsZero() && !failed {
		h.handovers = append(h.handovers, at)
	}
	if !same || h.seen.IsZero() {
		h.prior = h.seen
		if failed {
			h.prior = time.Time{}
		}
		h.since, h.scale = at, 0
	}
	return news
}

// stays reports whether one of the present holders of a shared lock held it before. If not all holders are known, one may
// have. For a lock with one holder, the caller compares the tokens.
func stays(before, now inspect.View) bool {
	for _, v := range []inspect.View{before, now} {
		if len(v.Holders) == 0 || len(v.Holders) < v.Holding {
			return true
		}
	}
	return slices.ContainsFunc(now.Holders, func(h inspect.Holder) bool {
		return slices.ContainsFunc(before.Holders, func(b inspect.Holder) bool { return b.Token == h.Token })
	})
}

// fenced reports whether a majority of servers has given a new fence. A single server proves nothing: it may have been away.
func (h *history) fenced(r *sight.Lock) bool {
	risen := 0
	for i, v := range r.Views {
		if i < len(h.fences) && h.fences[i] > 0 && v.Fence > h.fences[i] {
			risen++
		}
	}
	return risen > len(r.Views)/2
}

func (h *history) remember(r *sight.Lock) {
	h.fences = slices.Grow(h.fences, len(r.Views))[:len(r.Views)]
	for i, v := range r.Views {
		h.fences[i] = max(h.fences[i], v.Fence)
	}
}

// ending says how the last hold ended. There is no trace of whether its holder or another client deleted the key. ending says
// that it expired if no process renewed it when that was due.
func (h *history) ending(at time.Time) (kind, text string) {
	who, left := h.last.Holder(), h.left(h.seen)
	after := ""
	if age, known := h.age(at); known {
		after = fmt.Sprintf(" after %v", cli.Brief(age))
	}
	switch ran := at.Sub(h.seen); {
	case h.last.TTL < 0 || left > ran+clockMargin:
		return released, "released by " + who + after
	case left < h.scale/2:
		return expired, "expired, was held by " + who + after
	}
	return vanished, "gone: released by " + who + ", or expired"
}

// left returns what is left of the hold, computed from the TTL at the last look.
func (h *history) left(now time.Time) time.Duration {
	return max(time.Duration(h.last.TTL)*time.Millisecond-now.Sub(h.seen), 0)
}

// age returns how long the lock has been in its present state. If known is false, the real age may be higher.
func (h *history) age(now time.Time) (age time.Duration, known bool) {
	age, known = max(now.Sub(h.since), 0), !h.prior.IsZero()
	if h.last.Held && h.last.Age >= 0 {
		told := time.Duration(h.last.Age)*time.Millisecond + now.Sub(h.seen)
		if !known || told < now.Sub(h.prior) { // otherwise it belongs to the fence of an earlier holder
			return told, true
		}
	}
	return age, known
}

// rate returns how many hand-offs were seen per second.
func (h *history) rate(now time.Time) float64 {
	window := min(max(now.Sub(h.began), time.Second), rateWindow)
	return float64(len(h.handovers)) / window.Seconds()
}

// withFence returns the words about the fence of a lock.
func withFence(s sight.Sight) string {
	if s.Fence == 0 {
		return ""
	}
	return fmt.Sprintf(", fence %d", s.Fence)
}
