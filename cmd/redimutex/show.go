package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

const showHelp = `Usage: redimutex show [FLAGS] KEY

Shows who holds the lock KEY, since when, for how long if it is not renewed, and
who waits. It changes nothing. The token of the holder is not shown, because
who has it can release the lock.

  -redis URL  The server; repeat it for Redlock. -redis @FILE reads the URLs
              from a file. Default: $REDIMUTEX_URL (several with commas or
              spaces, or @FILE), else $REDIS_URL, else redis://127.0.0.1:6379
  -json       One JSON object: key, held, owner ("" if unknown), foreign (the
              token is of another library), ttl_ms (-1: the key never expires),
              age_ms (-1: unknown), fence (0 if none is known), waiting, queue
              (a list with owner, waiting_ms and listening of each, which is
              null if it is not known; the first 100), queue_looked_ms (since a
              waiter last looked; -1: unknown), agree (how many servers have the
              same holder), unsure (it may be held, if those that did not
              answer say so), and servers, a list with address, the same, and
              error of each.

With several servers the lock is held if a majority has the same holder; each
one's view follows.

  age      Known if locks of this KEY are taken with fencing, as redimutex run
           does; the fence tells it. If some are and some are not, it may be
           that of an earlier holder.
  waiting  Those who wait with -queue or WithQueue, in order. Who asks again and
           again instead leaves no trace on the server.

EXAMPLES
  redimutex show nightly-backup
  Wait until it is free, without taking it:
    while redimutex show nightly-backup; do sleep 1; done

EXIT STATUS
  0   held
  1   free
  2   wrong usage
  69  too few servers can be reached, stderr says why; or they disagree so that
      those that did not answer would decide
`

const exitFree = 1

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
		printJSON(t.out, r)
	} else {
		r.print(t.out)
	}
	switch {
	case r.Held:
		return exitOK
	case r.Unsure:
		return exitUnavailable
	}
	return exitFree
}

// print shows the view to people.
func (r *lockView) print(w io.Writer) {
	what := r.sight.String()
	if r.Unsure {
		what = "perhaps held: the servers that did not answer would decide"
	}
	fmt.Fprintf(w, "%s: %s\n", printable(r.Key), what)
	for i, q := range r.Queue {
		fmt.Fprintf(w, "  %d. %s\n", i+1, q)
	}
	if more := r.Waiting - len(r.Queue); more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
	if looked := time.Duration(r.Looked) * time.Millisecond; r.Waiting > 0 && looked > silentQueue {
		fmt.Fprintf(w, "  nobody in the queue has looked at the lock for %v: they hang or are dead\n", brief(looked))
	}
	if len(r.Servers) == 1 {
		return
	}
	if !r.Held && !r.Unsure && r.Agree > 0 {
		fmt.Fprintf(w, "  %d of %d servers have a holder, which is no majority: the lock is being taken or given up, or was lost\n", r.Agree, len(r.Servers))
	}
	for _, s := range r.Servers {
		what := s.sight.String()
		if s.Error != "" {
			what = s.Error
		}
		fmt.Fprintf(w, "  %s: %s\n", s.Address, what)
	}
}

// silentQueue is after how long waiters are suspected who look once a second when they live.
const silentQueue = 5 * time.Second

func (s sight) String() string {
	var words []string
	if s.Held {
		owner := s.Owner
		if s.Foreign {
			owner = "an unknown owner of another library"
		}
		words = append(words, heldBy(owner, time.Duration(s.TTL)))
		age := "unknown"
		if s.Age >= 0 {
			age = brief(time.Duration(s.Age) * time.Millisecond).String()
		}
		words = append(words, "age "+age)
		if s.TTL >= 0 {
			words = append(words, fmt.Sprintf("for another %v", brief(time.Duration(s.TTL)*time.Millisecond)))
		}
		if s.Fence > 0 {
			words = append(words, fmt.Sprintf("fence %d", s.Fence))
		}
	} else {
		words = append(words, "free")
	}
	if s.Waiting > 0 {
		words = append(words, fmt.Sprintf("%d waiting in the queue", s.Waiting))
	}
	return strings.Join(words, ", ")
}

func (q waiterSight) String() string {
	s := q.Owner
	if s == "" {
		s = "an unknown owner"
	}
	if q.Since >= 0 {
		s += fmt.Sprintf(", for %v", brief(time.Duration(q.Since)*time.Millisecond))
	}
	if q.Listening != nil && !*q.Listening {
		s += ", does not listen: dead, or connecting again"
	}
	return s
}

// brief rounds a time to what people want to know.
func brief(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// printJSON prints what a script reads.
func printJSON(w io.Writer, v any) {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.Encode(v) //nolint:errcheck // nowhere to say so
}
