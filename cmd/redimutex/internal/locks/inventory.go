package locks

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
)

// An inventory is the result of list.
type inventory struct {
	Complete bool          `json:"complete"`
	Asked    string        `json:"asked"`
	Locks    []*sight.Lock `json:"locks"`
	Errors   []listError   `json:"errors"`
	Refused  int           `json:"refused"` // keys that may not be read

	limited bool
	found   int   // locks, including those beyond the limit
	seen    int   // keys that were looked at
	failure error // the errors behind Errors
}

type listError struct {
	Address string `json:"address"`
	Name    string `json:"name"` // with the database
	Error   string `json:"error"`
}

// orders are the orders of -sort. Unknown and infinite values come last.
var orders = map[string]func(a, b *sight.Lock) int{
	"key":     func(a, b *sight.Lock) int { return 0 },
	"ttl":     func(a, b *sight.Lock) int { return cmp.Compare(uint64(shown(a).TTL), uint64(shown(b).TTL)) },
	"age":     func(a, b *sight.Lock) int { return cmp.Compare(shown(b).Age, shown(a).Age) },
	"waiters": func(a, b *sight.Lock) int { return cmp.Compare(b.Waiting, a.Waiting) },
}

// arrange sorts the locks, and leaves out those beyond the limit.
func (r *inventory) arrange(order string, limit int) {
	slices.SortFunc(r.Locks, func(a, b *sight.Lock) int {
		return cmp.Or(orders[cmp.Or(order, "key")](a, b), strings.Compare(a.Key, b.Key))
	})
	r.found = len(r.Locks)
	if limit > 0 && r.found > limit {
		r.Locks, r.limited, r.Complete = r.Locks[:limit], true, false
	}
}

// shown returns the state to list: that of the majority, or else that of the holder that most servers have.
func shown(l *sight.Lock) sight.Sight {
	if l.Held {
		return l.Sight
	}
	s := sight.See(l.Most)
	s.Fence, s.Waiting = l.Fence, l.Waiting
	return s
}

// The widest key and label in the table: the longest entry of a column makes all lines that wide.
const (
	maxKey   = 100
	maxOwner = 48
)

// cut returns the text in at most that many characters.
func cut(text string, most int) string {
	const mark = "..."
	if all := []rune(text); len(all) > most {
		return string(all[:most-len(mark)]) + mark
	}
	return text
}

// print shows the list to people.
func (r *inventory) print(w io.Writer, nodes servers.Set) {
	if len(r.Locks) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	heads := []string{"KEY", "OWNER", "AGE", "TTL", "FENCE", "WAITERS"}
	if len(nodes) > 1 {
		heads = append(heads, "SERVERS")
	}
	heads = append(heads, "(on "+nodes.Names()+")")
	fmt.Fprintln(table, strings.Join(heads, "\t"))
	for _, l := range r.Locks {
		s := shown(l)
		fence := "-"
		if s.Fence > 0 {
			fence = fmt.Sprint(s.Fence)
		}
		cells := []string{
			cut(cli.Printable(l.Key), maxKey), cut(cellOwner(s), maxOwner), cellTime(s.Age, "-"), cellTime(s.TTL, "never"), fence, fmt.Sprint(s.Waiting),
		}
		if len(nodes) > 1 {
			cells = append(cells, fmt.Sprintf("%d/%d", l.Agree, len(nodes)))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	table.Flush() //nolint:errcheck // nowhere to say so
}

// cellOwner says who holds a lock.
func cellOwner(s sight.Sight) string {
	switch {
	case s.NoToken:
		return "(perhaps no lock)"
	case s.Foreign:
		return "(foreign)"
	case s.Shared():
		return s.Holder()
	}
	return cmp.Or(s.Owner, "-")
}

// cellTime formats a number of milliseconds; a negative number is shown as none.
func cellTime(ms int64, none string) string {
	if ms < 0 {
		return none
	}
	return cli.Brief(time.Duration(ms) * time.Millisecond).String()
}

// warn reports what is missing in the list.
func (r *inventory) warn(t *cli.Terminal, by error, l *listing) {
	switch {
	case by != nil:
		t.Warn("interrupted after %s: the list is incomplete", cli.Count(r.seen, "key"))
	case r.limited && r.found > len(r.Locks):
		t.Warn("these are %d of %s, as -limit says", len(r.Locks), cli.Count(r.found, "lock"))
	case r.limited:
		t.Warn("stopped after %s, as -limit says: there may be more", cli.Count(len(r.Locks), "lock"))
	case len(r.Locks) == 0:
		hint := ""
		if !l.all && r.seen > 0 {
			hint = "; -all lists also strings that may be locks, such as those that never expire"
		}
		t.Warn("there is no lock among %s on %s%s", cli.Count(r.seen, "key"), l.nodes.Names(), hint)
	}
	for _, e := range r.Errors {
		t.Warn("%s: %s; locks that only this server has are missing", e.Name, e.Error)
	}
	if r.Refused > 0 {
		t.Warn("this user may not read %s, which the list leaves out", cli.Count(r.Refused, "key"))
	}
}
