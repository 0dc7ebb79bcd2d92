package debughttp

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/redimutex/redimutex"
)

// A query says what the page is asked to show.
type query struct {
	Filter string
	Order  string
	Limit  int
	asJSON bool
}

const (
	defaultLimit = 100
	maxLimit     = 10_000
)

// An order is a way to sort locks. Locks that it calls equal are sorted by key.
type order struct {
	Name, Label string
	compare     func(a, b *lock) int
}

// urgentBelow is the share of its TTL below which a lease is urgent. A renewal is due at two thirds, so it is late by then.
const urgentBelow = 0.5

// orders are the orders to choose from, the default first. The time left of a healthy lease goes up and down all the time.
// Sorted by that, healthy leases would change places each second, so the default sorts them by age.
var orders = []order{
	{"urgent", "running out first, then the oldest", func(a, b *lock) int {
		switch ua, ub := a.urgent(), b.urgent(); {
		case ua && ub:
			return left(a, b)
		case ua:
			return -1
		case ub:
			return 1
		}
		return age(a, b)
	}},
	{"left", "least time left first", left},
	{"age", "oldest first", age},
	{"waiting", "most waiters first", func(a, b *lock) int { return cmp.Compare(b.Waiting, a.Waiting) }},
	{"key", "by key", func(*lock, *lock) int { return 0 }},
}

func left(a, b *lock) int { return a.info.Until.Compare(b.info.Until) }
func age(a, b *lock) int  { return a.info.Since.Compare(b.info.Since) }

func newQuery(r *http.Request) (*query, error) {
	form := r.URL.Query()
	q := &query{Filter: form.Get("q"), Order: orders[0].Name, Limit: defaultLimit}
	switch format := form.Get("format"); format {
	case "":
		q.asJSON = prefersJSON(r.Header.Values("Accept"))
	case "html", "json":
		q.asJSON = format == "json"
	default:
		return nil, fmt.Errorf("format=%q: there are html and json", format)
	}
	if name := form.Get("sort"); name != "" {
		q.Order = name
		if q.compare() == nil {
			names := make([]string, len(orders))
			for i, o := range orders {
				names[i] = o.Name
			}
			return nil, fmt.Errorf("sort=%q: there are %s", name, strings.Join(names, ", "))
		}
	}
	if n := form.Get("n"); n != "" {
		limit, err := strconv.Atoi(n)
		if err != nil || limit < 1 || limit > maxLimit {
			return nil, fmt.Errorf("n=%q: give a number from 1 to %d", n, maxLimit)
		}
		q.Limit = limit
	}
	return q, nil
}

// compare returns the comparison function of the order, or nil if there is no such order.
func (q *query) compare() func(a, b *lock) int {
	i := slices.IndexFunc(orders, func(o order) bool { return o.Name == q.Order })
	if i < 0 {
		return nil
	}
	return orders[i].compare
}

// matches reports whether a lock or an event is wanted.
func (q *query) matches(key, owner string) bool {
	if q.Filter == "" {
		return true
	}
	part := strings.ToLower(q.Filter)
	for _, s := range []string{key, owner, printable(key)} {
		if strings.Contains(strings.ToLower(s), part) {
			return true
		}
	}
	return false
}

// matchesAny reports whether a lock is wanted. One matching key is enough.
func (q *query) matchesAny(info *redimutex.LockInfo) bool {
	return q.matches(info.Key, info.Owner) || slices.ContainsFunc(info.Keys, func(key string) bool { return q.matches(key, "") })
}

// prefersJSON reports whether a client accepts JSON, and prefers it to HTML.
func prefersJSON(accept []string) bool {
	var asJSON, asHTML float64
	for _, part := range strings.Split(strings.Join(accept, ","), ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		weight := 1.0
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			weight = q
		}
		switch kind {
		case "application/json":
			asJSON = weight
		case "text/html":
			asHTML = weight
		}
	}
	return asJSON > asHTML
}
