// Package sight combines what several servers say about a lock, for the verbs that look at locks.
package sight

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/internal/server"
)

// A Sight is what is known about a lock, from one server or from all of them together.
type Sight struct {
	Held    bool   `json:"held"`
	Kind    string `json:"kind"`    // mutex, semaphore, reader or writer; "" if it is free
	Holding int    `json:"holding"` // how many hold it; may be more than one for a semaphore or readers
	Owner   string `json:"owner"`   // "" if many may hold it
	Foreign bool   `json:"foreign"`
	NoToken bool   `json:"no_token"` // its value has no known form of a token
	TTL     int64  `json:"ttl_ms"`
	Age     int64  `json:"age_ms"`
	Fence   int64  `json:"fence"`
	Waiting int    `json:"waiting"`
}

// A Server is what one server says.
type Server struct {
	Address string `json:"address"`
	Name    string `json:"name"` // with the database
	Sight
	Error string `json:"error,omitempty"`
}

// A Holder is one holder of a semaphore, or one reader.
type Holder struct {
	Owner string `json:"owner"`
	TTL   int64  `json:"ttl_ms"` // of its own lease; -1: unknown
}

// A Waiter is one waiter in the queue.
type Waiter struct {
	Owner     string `json:"owner"`
	Kind      string `json:"kind"` // of the lock that it wants
	Since     int64  `json:"waiting_ms"`
	Listening *bool  `json:"listening"` // nil if unknown
}

// A Lock is what all servers say.
type Lock struct {
	Key string `json:"key"`
	Sight
	Agree   int      `json:"agree"`            // how many servers have the same holder, at most
	Unsure  bool     `json:"unsure"`           // not held, unless the servers that did not answer say so
	Holders []Holder `json:"holders,omitzero"` // of a semaphore, or readers; the first of them
	Queue   []Waiter `json:"queue,omitzero"`
	Looked  *int64   `json:"queue_looked_ms,omitzero"`
	Servers []Server `json:"servers"`

	Views []inspect.View `json:"-"` // with the tokens, which are not printed
	Most  inspect.View   `json:"-"` // the view of the holder that most servers have
	errs  []error        // of the servers that have no answer
}

// Look asks all servers at once about one lock and its first hundred waiters. It fails if no majority answers.
func Look(ctx context.Context, nodes servers.Set, key string) (*Lock, error) {
	all, err := LookAll(ctx, nodes, []string{key}, 100, servers.LookTimeout)
	if err != nil {
		return nil, err
	}
	return all[0], all[0].Failure()
}

// LookAll looks at many locks, and at the given number of waiters of each. It fails if no majority of servers answers. An
// error about one key is the Failure of its Lock. Once connections exist, it takes the time of one look, timeout at most.
func LookAll(ctx context.Context, nodes servers.Set, keys []string, waiters int, timeout time.Duration) ([]*Lock, error) {
	views, failures := make([][]inspect.View, len(nodes)), make([]error, len(nodes))
	var each sync.WaitGroup
	for i, n := range nodes {
		each.Go(func() { views[i], failures[i] = LookAt(ctx, n, keys, waiters, timeout) })
	}
	each.Wait()
	var errs []error
	for i, err := range failures {
		if err != nil {
			errs = append(errs, &redimutex.NodeError{Node: i, Err: err})
		}
	}
	if servers.TooMany(len(errs), len(nodes)) {
		return nil, errors.Join(errs...)
	}
	return Join(nodes, keys, views, failures), nil
}

// Join combines the views of all servers into one Lock per key. failures says which servers gave none, and why.
func Join(nodes servers.Set, keys []string, views [][]inspect.View, failures []error) []*Lock {
	all := make([]*Lock, len(keys))
	for k, key := range keys {
		r := &Lock{Key: key, Servers: make([]Server, len(nodes)), Views: make([]inspect.View, len(nodes))}
		for i, n := range nodes {
			v := inspect.View{Err: failures[i]}
			if v.Err == nil {
				v = views[i][k]
			}
			r.take(i, n, v)
		}
		r.conclude()
		all[k] = r
	}
	return all
}

// LookAt looks at locks on one server. Connecting may take longer than the look itself.
func LookAt(ctx context.Context, n servers.Node, keys []string, waiters int, timeout time.Duration) ([]inspect.View, error) {
	if err := n.Dial(ctx); err != nil {
		return nil, err
	}
	return inspect.Look(ctx, n.Server, keys, waiters, timeout)
}

// take notes the view of one server.
func (r *Lock) take(node int, n servers.Node, v inspect.View) {
	s := &r.Servers[node]
	s.Address, s.Name = n.Address, n.Name
	if v.Err != nil {
		s.Error = servers.Words(v.Err)
		r.errs = append(r.errs, &redimutex.NodeError{Node: node, Err: v.Err})
		v = inspect.View{}
	}
	r.Views[node], s.Sight = v, See(v)
}

// Failure returns why too few servers have an answer about this key, or nil.
func (r *Lock) Failure() error {
	if !servers.TooMany(len(r.errs), len(r.Views)) {
		return nil
	}
	return errors.Join(r.errs...)
}

// conclude combines the views of all servers. The order of the queue is that of the server with the longest queue.
func (r *Lock) conclude() {
	same := prevailing(r.Views)
	if r.Agree = len(same); r.Agree > 0 {
		r.Most = same[0]
	}
	r.Sight = majority(r.Views, same)
	for i := range r.Servers {
		if s := &r.Servers[i]; r.Held && s.Fence != r.Fence {
			s.Fence = 0 // it is a counter, and not the fence of the holder
		}
	}
	r.Unsure = !r.Held && r.Agree > 0 && !servers.TooMany(len(r.Views)-r.Agree-len(r.errs), len(r.Views))
	longest := inspect.View{}
	for _, v := range r.Views {
		if v.Waiting > longest.Waiting {
			longest = v
		}
	}
	looked := inMillis(longest.Looked)
	r.Looked = &looked
	r.Queue = make([]Waiter, 0, len(longest.Queue))
	for _, w := range longest.Queue {
		r.Queue = append(r.Queue, Waiter{cli.Printable(w.Owner), name(w.Wants), inMillis(w.Since), w.Listens})
	}
	r.Holders = []Holder{}
	for _, h := range r.Most.Holders[:min(len(r.Most.Holders), mostHolders)] {
		r.Holders = append(r.Holders, Holder{Owner: cli.Printable(server.Owner(h.Token)), TTL: inMillis(h.Left)})
	}
}

// mostHolders is the maximum number of holders that are listed.
const mostHolders = 100

func name(kind *server.Kind) string {
	if kind == nil {
		return ""
	}
	return kind.Name
}

// See makes a Sight of a view: it leaves the token out.
func See(v inspect.View) Sight {
	left := v.Left.Milliseconds()
	if v.Left < 0 {
		left = -1
	}
	form := inspect.FormOf(v.Holder)
	alone := v.Kind != nil && !v.Kind.Shared
	return Sight{
		Held: v.Kind != nil, Kind: name(v.Kind), Holding: v.Holding, Owner: cli.Printable(server.Owner(v.Holder)),
		Foreign: alone && form != inspect.Ours, NoToken: alone && form == inspect.NoToken,
		TTL: left, Age: inMillis(v.Age), Fence: v.Fence, Waiting: v.Waiting,
	}
}

// inMillis returns a time as in the JSON output. An unknown time, which is 0 in a View, is -1 there.
func inMillis(d time.Duration) int64 {
	if d <= 0 {
		return -1
	}
	return d.Milliseconds()
}

// prevailing returns the views with the holder that most servers have; none if the lock is free on all servers.
func prevailing(views []inspect.View) (most []inspect.View) {
	for _, holder := range views {
		var same []inspect.View
		for _, v := range views {
			if v.Kind != nil && v.Kind == holder.Kind && v.Holder == holder.Holder {
				same = append(same, v)
			}
		}
		if len(same) > len(most) {
			most = same
		}
	}
	return most
}

// majority returns what the servers say together; same are the views that prevail. The lock lasts as long as a majority of
// the servers has it. Its age is that of the server that gave it last. Each server counts fences for itself, so its counter
// may be higher than the fence of the holder, which was written to a majority: the fence is the one on which a majority with
// this holder agrees, or 0.
func majority(views, same []inspect.View) Sight {
	all := Sight{Age: -1}
	for _, v := range views {
		all.Fence = max(all.Fence, v.Fence)
		all.Waiting = max(all.Waiting, v.Waiting)
	}
	need := len(views)/2 + 1
	if len(same) < need {
		return all
	}
	// A TTL that never ends is negative, and sorts first as unsigned.
	longest := func(a, b inspect.View) int { return cmp.Compare(uint64(b.Left), uint64(a.Left)) }
	held := See(slices.SortedFunc(slices.Values(same), longest)[need-1])
	held.Fence, held.Waiting, held.Age = 0, all.Waiting, -1
	agree := make(map[int64]int)
	for _, v := range same {
		if agree[v.Fence]++; agree[v.Fence] == need {
			held.Fence = v.Fence
		}
		if age := inMillis(v.Age); age >= 0 && (held.Age < 0 || age < held.Age) {
			held.Age = age
		}
	}
	return held
}
