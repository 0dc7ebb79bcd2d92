// Package sight is what several servers together say about a lock, for the verbs that look.
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

// A Sight is what is known about a lock, by one server or by all of them together.
type Sight struct {
	Held    bool   `json:"held"`
	Kind    string `json:"kind"`    // mutex, semaphore, reader or writer; "" if it is free
	Holding int    `json:"holding"` // how many hold it; more than one of a semaphore, or of readers
	Owner   string `json:"owner"`   // "" where many may hold it
	Foreign bool   `json:"foreign"`
	NoToken bool   `json:"no_token"` // its value has no form of a token that we know
	TTL     int64  `json:"ttl_ms"`
	Age     int64  `json:"age_ms"`
	Fence   int64  `json:"fence"`
	Waiting int    `json:"waiting"`
}

// A Server is what one of them says.
type Server struct {
	Address string `json:"address"`
	Name    string `json:"name"` // with the database
	Sight
	Error string `json:"error,omitempty"`
}

// A Holder is one of those who hold a semaphore, or read.
type Holder struct {
	Owner string `json:"owner"`
	TTL   int64  `json:"ttl_ms"` // of its own lease; -1: unknown
}

// A Waiter is one in the queue.
type Waiter struct {
	Owner     string `json:"owner"`
	Kind      string `json:"kind"` // of lock that it wants
	Since     int64  `json:"waiting_ms"`
	Listening *bool  `json:"listening"` // nil if unknown
}

// A Lock is what all servers say.
type Lock struct {
	Key string `json:"key"`
	Sight
	Agree   int      `json:"agree"`            // how many servers have the same holder, at most
	Unsure  bool     `json:"unsure"`           // not held, unless those who did not answer say so
	Holders []Holder `json:"holders,omitzero"` // of a semaphore, or readers; the first of them
	Queue   []Waiter `json:"queue,omitzero"`
	Looked  *int64   `json:"queue_looked_ms,omitzero"`
	Servers []Server `json:"servers"`

	Views []inspect.View `json:"-"` // with the tokens, which no other process gets to see
	Most  inspect.View   `json:"-"` // that of the holder that most servers have
	errs  []error        // of the servers that can't say anything
}

// Look asks all servers at once about one lock and its first hundred waiters. It fails if there is no
// majority that answers.
func Look(ctx context.Context, nodes servers.Set, key string) (*Lock, error) {
	all, err := LookAll(ctx, nodes, []string{key}, 100)
	if err != nil {
		return nil, err
	}
	return all[0], all[0].Failure()
}

// LookAll looks at many locks and so many of their waiters. It fails if there is no majority of
// servers that answers; what concerns one key alone is the failure of its Lock. It takes one look's time
// once there are connections.
func LookAll(ctx context.Context, nodes servers.Set, keys []string, waiters int) ([]*Lock, error) {
	views, failures := make([][]inspect.View, len(nodes)), make([]error, len(nodes))
	var each sync.WaitGroup
	for i, n := range nodes {
		each.Go(func() { views[i], failures[i] = LookAt(ctx, n, keys, waiters) })
	}
	each.Wait()
	errs := []error{redimutex.ErrUnavailable}
	for i, err := range failures {
		if err != nil {
			errs = append(errs, &redimutex.NodeError{Node: i, Err: err})
		}
	}
	if servers.TooMany(len(errs)-1, len(nodes)) {
		return nil, errors.Join(errs...)
	}
	return Join(nodes, keys, views, failures), nil
}

// Join makes one picture of each lock of what all servers have said of all of them, or why they have not.
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

// LookAt looks at locks on one server. It may take longer to connect than for the look itself.
func LookAt(ctx context.Context, n servers.Node, keys []string, waiters int) ([]inspect.View, error) {
	if err := n.Dial(ctx); err != nil {
		return nil, err
	}
	return inspect.Look(ctx, n.Server, keys, waiters, servers.LookTimeout)
}

// take notes what one server says.
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

// Failure returns why too few servers can say something about this key, or nil.
func (r *Lock) Failure() error {
	if !servers.TooMany(len(r.errs), len(r.Views)) {
		return nil
	}
	return errors.Join(append([]error{redimutex.ErrUnavailable}, r.errs...)...)
}

// conclude makes one picture of what all servers have said. The order of the queue is that of the
// server where it is longest.
func (r *Lock) conclude() {
	r.Sight = Majority(r.Views)
	r.Most, r.Agree = prevailing(r.Views)
	for i := range r.Servers {
		if s := &r.Servers[i]; r.Held && s.Fence != r.Fence {
			s.Fence = 0 // a counter, which is not the fence of the holder
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

// mostHolders is how many of many holders are listed.
const mostHolders = 100

func name(kind *server.Kind) string {
	if kind == nil {
		return ""
	}
	return kind.Name
}

// See leaves the token out of a view.
func See(v inspect.View) Sight {
	left := v.Left.Milliseconds()
	if v.Left < 0 {
		left = -1
	}
	form := inspect.KindOf(v.Holder)
	alone := v.Kind != nil && !v.Kind.Shared
	return Sight{
		Held: v.Kind != nil, Kind: name(v.Kind), Holding: v.Holding, Owner: cli.Printable(server.Owner(v.Holder)),
		Foreign: alone && form != inspect.Ours, NoToken: alone && form == inspect.NoToken,
		TTL: left, Age: inMillis(v.Age), Fence: v.Fence, Waiting: v.Waiting,
	}
}

// inMillis is a time as JSON has it: -1 if it is unknown, which is 0 in a View.
func inMillis(d time.Duration) int64 {
	if d <= 0 {
		return -1
	}
	return d.Milliseconds()
}

// having returns the views in which the lock has the same holder.
func having(views []inspect.View, holder inspect.View) (same []inspect.View) {
	for _, v := range views {
		if v.Kind != nil && v.Kind == holder.Kind && v.Holder == holder.Holder {
			same = append(same, v)
		}
	}
	return same
}

// prevailing returns the view of the holder that most servers have, and how many they are; 0 if
// the lock is free on all of them.
func prevailing(views []inspect.View) (most inspect.View, servers int) {
	for _, v := range views {
		if same := len(having(views, v)); same > servers {
			most, servers = v, same
		}
	}
	return most, servers
}

// Majority is what the servers say together. The lock lasts as long as a majority of them has it, and
// is as old as the server says that gave it last. Each server counts for itself, so its counter may be higher than the
// fence of the holder, which was written to a majority: the fence is what a majority with this holder agrees on, or 0.
func Majority(views []inspect.View) Sight {
	all := Sight{Age: -1}
	for _, v := range views {
		all.Fence = max(all.Fence, v.Fence)
		all.Waiting = max(all.Waiting, v.Waiting)
	}
	need := len(views)/2 + 1
	most, servers := prevailing(views)
	if servers < need {
		return all
	}
	same := having(views, most)
	// What never ends is negative, and comes first.
	slices.SortFunc(same, func(a, b inspect.View) int { return cmp.Compare(uint64(b.Left), uint64(a.Left)) })
	held := See(same[need-1])
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
