package sight

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/internal/server"
)

// String describes the lock in words.
func (s Sight) String() string {
	words := []string{s.InWords()}
	if s.Held {
		if s.TTL < 0 {
			words = append(words, "with a key that never expires")
		}
		if s.Age >= 0 {
			words = append(words, fmt.Sprintf("age %v", brief(s.Age)))
		} else if !s.Shared() {
			words = append(words, "age unknown")
		}
		if s.TTL >= 0 {
			words = append(words, fmt.Sprintf("for another %v", brief(s.TTL)))
		}
		if s.Fence > 0 {
			words = append(words, fmt.Sprintf("fence %d", s.Fence))
		}
	}
	if s.Waiting > 0 {
		words = append(words, fmt.Sprintf("%d waiting", s.Waiting))
	}
	return strings.Join(words, ", ")
}

// brief rounds a number of milliseconds to the precision that people want.
func brief(ms int64) time.Duration { return cli.Brief(time.Duration(ms) * time.Millisecond) }

// Perhaps describes a lock that is unsure.
const Perhaps = "perhaps held: the servers that did not answer would decide"

// Print shows the lock to people.
func (r *Lock) Print(w io.Writer) {
	what := r.Sight.String()
	if r.Unsure {
		what = Perhaps
	}
	if len(r.Servers) == 1 {
		what += ", on " + r.Servers[0].Name
	}
	fmt.Fprintf(w, "%s: %s\n", cli.Printable(r.Key), what)
	for _, h := range r.Holders {
		fmt.Fprintf(w, "  %s\n", h)
	}
	if more := r.Holding - len(r.Holders); r.Shared() && more > 0 && len(r.Holders) > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
	for i, q := range r.Queue {
		fmt.Fprintf(w, "  %d. %s\n", i+1, q)
	}
	if more := r.Waiting - len(r.Queue); more > 0 && len(r.Queue) > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
	if r.Waiting > 0 && *r.Looked > silentQueue.Milliseconds() {
		fmt.Fprintf(w, "  no waiter in the queue has looked at the lock for %v: they hang or are dead\n", brief(*r.Looked))
	}
	if len(r.Servers) == 1 {
		return
	}
	if !r.Held && !r.Unsure && r.Agree > 0 {
		fmt.Fprintf(w, "  %d of %d servers have the same holder, which is no majority: the lock is being taken or given up, or was lost\n", r.Agree, len(r.Servers))
	}
	for _, s := range r.Servers {
		what := s.Sight.String()
		if s.Error != "" {
			what = s.Error
		}
		fmt.Fprintf(w, "  %s: %s\n", s.Name, what)
	}
}

// silentQueue is how long waiters may be silent before they are suspected. Living waiters look once a second.
const silentQueue = 5 * time.Second

func (h Holder) String() string {
	s := cmp.Or(h.Owner, unknownOwner)
	if h.TTL >= 0 {
		s += fmt.Sprintf(", for another %v", brief(h.TTL))
	}
	return s
}

func (q Waiter) String() string {
	s := cmp.Or(q.Owner, unknownOwner)
	if q.Kind == server.Reader.Name || q.Kind == server.Writer.Name {
		s += " (" + q.Kind + ")"
	}
	if q.Since >= 0 {
		s += fmt.Sprintf(", for %v", brief(q.Since))
	}
	if q.Listening != nil && !*q.Listening {
		s += ", does not listen: dead, or connecting again"
	}
	return s
}

const unknownOwner = "an unknown owner"

// Shared reports whether many may hold the lock.
func (s Sight) Shared() bool { return s.Kind == server.Reader.Name || s.Kind == server.Semaphore.Name }

// Holder returns the name of the holder, or how many holders there are.
func (s Sight) Holder() string {
	switch {
	case s.Owner != "":
		return s.Owner
	case s.Kind == server.Semaphore.Name:
		return cli.Count(s.Holding, "permit holder")
	case s.Shared() && s.Holding == 0: // this user may not see them
		return "readers"
	case s.Shared():
		return cli.Count(s.Holding, "reader")
	case s.NoToken:
		return unknownOwner + " of another library (perhaps no lock)"
	case s.Foreign:
		return unknownOwner + " of another library"
	}
	return unknownOwner
}

// InWords returns the state in a few words.
func (s Sight) InWords() string {
	if s.Held {
		return "held by " + s.Holder()
	}
	return "free"
}
