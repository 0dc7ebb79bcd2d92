package main

import (
	"errors"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/server"
)

// A sight is what is known about a lock, by one server or by all of them together.
type sight struct {
	Held    bool   `json:"held"`
	Owner   string `json:"owner"`
	Foreign bool   `json:"foreign"`
	TTL     int64  `json:"ttl_ms"`
	Age     int64  `json:"age_ms"`
	Fence   int64  `json:"fence"`
	Waiting int    `json:"waiting"`
}

type serverSight struct {
	Address string `json:"address"`
	sight
	Error string `json:"error,omitempty"`
}

// A waiterSight is somebody in the queue.
type waiterSight struct {
	Owner     string `json:"owner"`
	Since     int64  `json:"waiting_ms"`
	Listening *bool  `json:"listening"` // nil if unknown
}

type lockView struct {
	Key string `json:"key"`
	sight
	Agree   int           `json:"agree"`  // how many servers have the same holder, at most
	Unsure  bool          `json:"unsure"` // not held, unless those who did not answer say so
	Queue   []waiterSight `json:"queue"`
	Looked  int64         `json:"queue_looked_ms"`
	Servers []serverSight `json:"servers"`

	views []server.View // with the tokens, which nobody else gets to see
	errs  []error       // of the servers that can't say anything
}

// shownWaiters is how many of a queue are shown.
const shownWaiters = 100

// look asks all servers at once. It fails if there is no majority that answers.
func look(nodes servers, key string) (*lockView, error) {
	all, err := lookAll(nodes, []string{key}, shownWaiters)
	if err != nil {
		return nil, err
	}
	return all[0], all[0].failure()
}

// lookAll looks at many locks and so many of their waiters. It fails if there is no majority of
// servers that answers; what concerns one key alone is the failure of its view.
func lookAll(nodes servers, keys []string, waiters int) ([]*lockView, error) {
	type answer struct {
		node  int
		views []server.View
		err   error
	}
	answers := make(chan answer, len(nodes))
	for i, n := range nodes {
		go func() {
			v, err := server.New(n.pool).InspectAll(keys, waiters, dialTimeout)
			answers <- answer{i, v, err}
		}()
	}
	all := make([]*lockView, len(keys))
	for i, key := range keys {
		all[i] = &lockView{Key: key, Servers: make([]serverSight, len(nodes)), views: make([]server.View, len(nodes))}
	}
	errs := []error{redimutex.ErrUnavailable}
	for range nodes {
		a := <-answers
		if a.err != nil {
			errs = append(errs, redimutex.NodeError{Node: a.node, Err: a.err})
		}
		for i, r := range all {
			v := server.View{Err: a.err}
			if a.err == nil {
				v = a.views[i]
			}
			r.take(a.node, nodes[a.node].address, v)
		}
	}
	if tooMany(len(errs)-1, len(nodes)) {
		return nil, errors.Join(errs...)
	}
	for _, r := range all {
		r.conclude()
	}
	return all, nil
}

// tooMany reports whether so many servers of n failed that the others are no majority.
func tooMany(failed, n int) bool { return failed > (n-1)/2 }

// take notes what one server says.
func (r *lockView) take(node int, address string, v server.View) {
	s := &r.Servers[node]
	s.Address = address
	if v.Err != nil {
		s.Error = printable(shortened(v.Err).Error())
		r.errs = append(r.errs, redimutex.NodeError{Node: node, Err: v.Err})
		v = server.View{}
	}
	r.views[node], s.sight = v, see(v)
}

// failure returns why too few servers can say something about this key, or nil.
func (r *lockView) failure() error {
	if !tooMany(len(r.errs), len(r.views)) {
		return nil
	}
	return errors.Join(append([]error{redimutex.ErrUnavailable}, r.errs...)...)
}

// conclude makes one picture of what all servers have said. The order of the queue is that of the
// server where it is longest.
func (r *lockView) conclude() {
	r.sight = majority(r.views)
	_, r.Agree = prevailing(r.views)
	r.Unsure = !r.Held && r.Agree > 0 && !tooMany(len(r.views)-r.Agree-len(r.errs), len(r.views))
	longest := server.View{}
	for _, v := range r.views {
		if v.Waiting > longest.Waiting {
			longest = v
		}
	}
	r.Looked = inMillis(longest.Looked)
	r.Queue = make([]waiterSight, 0, len(longest.Queue))
	for _, w := range longest.Queue {
		s := waiterSight{Owner: printable(w.Owner), Since: inMillis(w.Since)}
		if w.Presence != server.PresenceUnknown {
			listens := w.Presence == server.Listening
			s.Listening = &listens
		}
		r.Queue = append(r.Queue, s)
	}
}

// see leaves the token out of a view.
func see(v server.View) sight {
	left := v.Left.Milliseconds()
	if v.Left < 0 {
		left = -1
	}
	foreign := v.Held && server.KindOf(v.Holder) != server.Ours
	return sight{v.Held, printable(server.Owner(v.Holder)), foreign, left, inMillis(v.Age), v.Fence, v.Waiting}
}

// inMillis is a time as JSON has it: -1 if it is unknown, which is 0 in a View.
func inMillis(d time.Duration) int64 {
	if d <= 0 {
		return -1
	}
	return d.Milliseconds()
}

// prevailing returns the view of the holder that most servers have, and how many they are; 0 if
// the lock is free on all of them.
func prevailing(views []server.View) (most server.View, servers int) {
	for _, v := range views {
		same := 0
		for _, other := range views {
			if v.Held && other.Held && other.Holder == v.Holder {
				same++
			}
		}
		if same > servers {
			most, servers = v, same
		}
	}
	return most, servers
}

// majority is what the servers say together. The lock lasts as long as a majority of them has it, and
// is as old as the server says that gave it last.
func majority(views []server.View) sight {
	all := sight{Age: -1}
	for _, v := range views {
		all.Fence = max(all.Fence, v.Fence)
		all.Waiting = max(all.Waiting, v.Waiting)
	}
	need := len(views)/2 + 1
	most, servers := prevailing(views)
	if servers < need {
		return all
	}
	fence, waiting, age := all.Fence, all.Waiting, int64(-1)
	for _, v := range views {
		if !v.Held || v.Holder != most.Holder {
			continue
		}
		longer := 0
		for _, other := range views {
			if other.Held && other.Holder == v.Holder && (other.Left < 0 || v.Left >= 0 && other.Left >= v.Left) {
				longer++
			}
		}
		s := see(v)
		if s.Age >= 0 && (age < 0 || s.Age < age) {
			age = s.Age
		}
		if longer >= need && (!all.Held || s.TTL < 0 || all.TTL >= 0 && s.TTL > all.TTL) {
			all = s
		}
	}
	all.Fence, all.Waiting, all.Age = fence, waiting, age
	return all
}
