package debughttp

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redimutex/redimutex"
)

// A look is everything that a page shows.
type look struct {
	At        moment      `json:"at"`
	Process   *process    `json:"process"`
	Stats     stats       `json:"stats"`
	Held      []*lock     `json:"held"`
	WaitedFor []*lock     `json:"waited_for"`
	More      more        `json:"more"`
	Trouble   []happening `json:"trouble"`
	Events    []happening `json:"events"`

	Query *query `json:"-"`
}

// more says how many locks were left out.
type more struct {
	Held      int `json:"held"`
	WaitedFor int `json:"waited_for"`
}

// named is a thing that has a key.
type named struct {
	Key   string `json:"key"`
	Bytes int    `json:"key_bytes,omitempty"` // length of a key that was cut
	Shown string `json:"shown"`
	Owner string `json:"owner,omitempty"`
	Fence int64  `json:"fence,omitempty"`
}

type lock struct {
	named
	Keys    []string `json:"keys,omitempty"` // of a MutexAll
	Kind    string   `json:"kind"`           // mutex, semaphore, reader or writer
	Holds   int      `json:"holds"`          // how many holds of this process share it
	What    string   `json:"what"`           // kind and holds, in words
	Age     int64    `json:"age_ms"`
	Left    int64    `json:"left_ms"`
	TTL     int64    `json:"ttl_ms"`
	Idle    bool     `json:"idle,omitempty"`
	Waiting int      `json:"waiting"`
	Error   string   `json:"error,omitempty"`

	info *redimutex.LockInfo
}

func (l *lock) urgent() bool { return l.info.Held && float64(l.Left) < urgentBelow*float64(l.TTL) }

type happening struct {
	Number int    `json:"number"` // counts up
	At     moment `json:"at"`
	What   string `json:"event"`
	named
	Times   int     `json:"times"`
	Tries   int     `json:"tries,omitempty"`
	Wait    float64 `json:"wait_ms,omitempty"`
	Held    float64 `json:"held_ms,omitempty"`
	Error   string  `json:"error,omitempty"`
	Text    string  `json:"text"` // all of that, in words
	Trouble bool    `json:"trouble"`
}

type stats struct {
	Held       int     `json:"held"`
	Waiting    int     `json:"waiting"`
	Acquired   int64   `json:"acquired"`
	Contended  int64   `json:"contended"`
	Released   int64   `json:"released"`
	Failed     int64   `json:"failed"`
	Renewed    int64   `json:"renewed"`
	NotRenewed int64   `json:"not_renewed"`
	Expired    int64   `json:"lost_expired"`
	Deleted    int64   `json:"lost_deleted"`
	Taken      int64   `json:"lost_taken"`
	Wait       float64 `json:"wait_ms"`
	Hold       float64 `json:"hold_ms"`
	Errors     []int64 `json:"errors"`
}

// look collects everything that q asks for.
func (p *Page) look(q *query, now time.Time) *look {
	l := &look{At: moment{now}, Process: &p.process, Stats: figures(p.client.Stats()), Query: q, Held: []*lock{}, WaitedFor: []*lock{}}
	for _, info := range p.client.Locks() {
		if !q.matchesAny(&info) {
			continue
		}
		if info.Held {
			l.Held = append(l.Held, newLock(&info, now))
		} else {
			l.WaitedFor = append(l.WaitedFor, newLock(&info, now))
		}
	}
	l.Held, l.More.Held = q.first(l.Held)
	l.WaitedFor, l.More.WaitedFor = q.first(l.WaitedFor)
	all, trouble := p.log.last()
	l.Events, l.Trouble = q.happenings(all), q.happenings(trouble)
	return l
}

// first returns the locks to show, and how many are left out. all comes sorted by key.
func (q *query) first(all []*lock) ([]*lock, int) {
	slices.SortStableFunc(all, q.compare())
	n := min(len(all), q.Limit)
	for _, l := range all[:n] {
		l.named = name(l.Key, l.Owner, l.Fence)
		for _, key := range l.info.Keys {
			l.Keys = append(l.Keys, name(key, "", 0).Key)
		}
		if len(l.Keys) > 0 {
			l.Shown = shorten(printable(strings.Join(l.info.Keys, ", ")), maxShown)
		}
	}
	return all[:n], len(all) - n
}

// newLock leaves the names unshortened, because only a few of many locks are shown.
func newLock(info *redimutex.LockInfo, now time.Time) *lock {
	l := &lock{
		named: named{Key: info.Key, Owner: info.Owner, Fence: info.Fence}, Kind: info.Kind, Holds: info.Holds, What: kind(info),
		info: info, Idle: info.Idle, Waiting: info.Waiting,
	}
	if info.Held {
		l.Age, l.Left = max(now.Sub(info.Since), 0).Milliseconds(), max(info.Until.Sub(now), 0).Milliseconds()
		l.TTL = info.TTL.Milliseconds()
	}
	if info.Err != nil {
		l.Error = said(info.Err, info.Key)
	}
	return l
}

// kind returns the kind of a lock in words, with the number of holds if that is more than one.
func kind(info *redimutex.LockInfo) string {
	switch {
	case len(info.Keys) > 0:
		return fmt.Sprintf("%s of %d keys", info.Kind, len(info.Keys))
	case info.Holds > 1:
		return fmt.Sprintf("%s, %d holds", info.Kind, info.Holds)
	}
	return info.Kind
}

func name(key, owner string, fence int64) named {
	n := named{Key: key, Shown: shorten(printable(key), maxShown), Owner: printable(owner), Fence: fence}
	if len(key) > maxKey {
		n.Key, n.Bytes = key[:maxKey], len(key)
	}
	return n
}

func (q *query) happenings(entries []entry) []happening {
	shown := make([]happening, 0, len(entries))
	for _, e := range entries {
		if !q.matches(e.key, e.owner) {
			continue
		}
		h := happening{
			Number: e.number, At: moment{e.at}, What: e.what, named: name(e.key, e.owner, e.fence), Times: e.times, Tries: e.tries,
			Wait: ms(e.wait), Held: ms(e.held), Trouble: e.isTrouble(),
		}
		if e.err != nil {
			h.Error = said(e.err, e.key)
		}
		h.Text = h.words(&e)
		shown = append(shown, h)
	}
	return shown
}

// words describes an event, apart from its key and owner: the owner is mostly the same.
func (h *happening) words(e *entry) string {
	var all []string
	add := func(ok bool, format string, args ...any) {
		if ok {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(e.times > 1, "%d times", e.times)
	add(e.tries == 1, "1 try")
	add(e.tries > 1, "%d tries", e.tries)
	add(e.wait > 0, "waited %s", brief(e.wait))
	add(e.held > 0, "held %s", brief(e.held))
	add(h.Fence > 0, "fence %d", h.Fence)
	add(h.Error != "", "%s", h.Error)
	return strings.Join(all, " · ")
}

func figures(s redimutex.Stats) stats {
	return stats{
		Held: s.Held, Waiting: s.Waiting, Acquired: s.Acquired, Contended: s.Contended, Released: s.Released, Failed: s.Failed,
		Renewed: s.Renewed, NotRenewed: s.NotRenewed, Expired: s.LostExpired, Deleted: s.LostDeleted, Taken: s.LostTaken,
		Wait: ms(s.WaitTime), Hold: ms(s.HoldTime), Errors: s.Errors,
	}
}

// A moment is a time that is always written with the same number of digits, so that the script of the page finds its parts.
type moment struct{ time.Time }

// MarshalJSON implements [json.Marshaler].
func (m moment) MarshalJSON() ([]byte, error) {
	return []byte(m.Format(`"2006-01-02T15:04:05.000000Z07:00"`)), nil
}

// ms returns d in milliseconds, exact to a microsecond.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
