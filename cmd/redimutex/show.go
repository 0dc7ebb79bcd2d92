package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/server"
)

const showHelp = `Usage: redimutex show [FLAGS] KEY

Shows who holds the lock KEY, and for how long if it is not renewed. It changes
nothing. The token of the holder is not shown, because who has it can release
the lock.

  -redis URL  The server; repeat it for Redlock. -redis @FILE reads the URLs
              from a file. Default: $REDIMUTEX_URL (several with commas or
              spaces, or @FILE), else $REDIS_URL, else redis://127.0.0.1:6379
  -json       One JSON object: key, held, owner ("" if unknown), ttl_ms (-1: the
              key never expires), fence (0 if none is known), and servers, a
              list with address, held, owner, ttl_ms, fence and error of each.

With several servers the lock is held if a majority has the same holder; each
one's view follows.

EXAMPLES
  redimutex show nightly-backup
  Wait until it is free, without taking it:
    while redimutex show nightly-backup; do sleep 1; done

EXIT STATUS
  0   held
  1   free
  2   wrong usage
  69  too few servers can be reached; stderr says why
`

const exitFree = 1

// A sight is what is known about a lock, by one server or by all of them together.
type sight struct {
	Held  bool   `json:"held"`
	Owner string `json:"owner"`
	TTL   int64  `json:"ttl_ms"`
	Fence int64  `json:"fence"`
}

type serverSight struct {
	Address string `json:"address"`
	sight
	Error string `json:"error,omitempty"`
}

type lockView struct {
	Key string `json:"key"`
	sight
	Servers []serverSight `json:"servers"`
}

func showCommand(args []string, t terminal) int {
	var given urls
	var asJSON bool
	fs := newFlags("show")
	fs.Var(&given, "redis", "")
	fs.BoolVar(&asJSON, "json", false, "")
	words, err := parse(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		io.WriteString(t.out, showHelp) //nolint:errcheck // nowhere to say so
		return exitOK
	}
	var key string
	if err == nil {
		key, err = oneKey(words)
	}
	var nodes servers
	if err == nil {
		nodes, err = findServers(given)
	}
	if err != nil {
		return usageError(t, "show", err)
	}
	defer nodes.close()
	r, err := look(nodes, key)
	if err != nil {
		fmt.Fprintf(t.err, "redimutex: can't look at %q: %s\n", key, printable(nodes.explain(err)))
		return exitUnavailable
	}
	if asJSON {
		encoder := json.NewEncoder(t.out)
		encoder.SetEscapeHTML(false)
		encoder.Encode(r) //nolint:errcheck // nowhere to say so
	} else {
		r.print(t.out)
	}
	if r.Held {
		return exitOK
	}
	return exitFree
}

// look asks all servers at once. It fails if there is no majority that answers.
func look(nodes servers, key string) (*lockView, error) {
	type answer struct {
		node int
		view server.View
		err  error
	}
	answers := make(chan answer, len(nodes))
	for i, n := range nodes {
		go func() {
			v, err := server.New(n.pool).Inspect(key, dialTimeout)
			answers <- answer{i, v, err}
		}()
	}
	r := &lockView{Key: key, Servers: make([]serverSight, len(nodes))}
	views := make([]server.View, len(nodes))
	errs := []error{redimutex.ErrUnavailable}
	for range nodes {
		a := <-answers
		s := &r.Servers[a.node]
		s.Address = nodes[a.node].address
		views[a.node] = a.view
		if a.err != nil {
			s.Error = printable(shortened(a.err).Error())
			errs = append(errs, redimutex.NodeError{Node: a.node, Err: a.err})
			continue
		}
		s.sight = see(a.view)
	}
	if len(errs)-1 > (len(nodes)-1)/2 {
		return nil, errors.Join(errs...)
	}
	r.sight = majority(views)
	return r, nil
}

// see leaves the token out of a view.
func see(v server.View) sight {
	left := v.Left.Milliseconds()
	if v.Left < 0 {
		left = -1
	}
	return sight{v.Held, printable(server.Owner(v.Holder)), left, v.Fence}
}

// majority is what the servers say together. The lock lasts as long as a majority of them has it.
func majority(views []server.View) sight {
	var all sight
	for _, v := range views {
		all.Fence = max(all.Fence, v.Fence)
	}
	need := len(views)/2 + 1
	for _, v := range views {
		longer, same := 0, 0
		for _, other := range views {
			if !other.Held || other.Holder != v.Holder {
				continue
			}
			same++
			if other.Left < 0 || v.Left >= 0 && other.Left >= v.Left {
				longer++
			}
		}
		if !v.Held || same < need {
			continue
		}
		if s := see(v); longer >= need && (!all.Held || s.TTL < 0 || all.TTL >= 0 && s.TTL > all.TTL) {
			s.Fence = all.Fence
			all = s
		}
	}
	return all
}

// print shows the view to people.
func (r *lockView) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", printable(r.Key), r.sight)
	if len(r.Servers) == 1 {
		return
	}
	for _, s := range r.Servers {
		what := s.sight.String()
		if s.Error != "" {
			what = s.Error
		}
		fmt.Fprintf(w, "  %s: %s\n", s.Address, what)
	}
}

func (s sight) String() string {
	if !s.Held {
		return "free"
	}
	words := []string{heldBy(s.Owner, time.Duration(s.TTL))}
	if s.TTL >= 0 {
		words = append(words, fmt.Sprintf("for another %v", time.Duration(s.TTL)*time.Millisecond))
	}
	if s.Fence > 0 {
		words = append(words, fmt.Sprintf("fence %d", s.Fence))
	}
	return strings.Join(words, ", ")
}
