package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/server"
)

// What became of a lock that was to be broken, on one server or on all of them.
const (
	wasBroken   = "broken"
	wasFree     = "free"
	wasChanged  = "changed" // somebody else holds it
	wasDeclined = "declined"
	wasUnclear  = "unknown" // too few servers have answered
)

// A breach is the breaking of a lock.
type breach struct {
	Key     string         `json:"key"`
	Result  string         `json:"result"`
	Before  *lockView      `json:"before"`
	After   *lockView      `json:"after"`
	Servers []brokenServer `json:"servers"`

	nodes servers
	errs  []error
}

type brokenServer struct {
	Address string `json:"address"`
	Result  string `json:"result"`
	Error   string `json:"error,omitempty"`
}

// carryOut deletes the lock on all servers, where it still has the token that it had when it was shown.
func (b *breach) carryOut() {
	b.Servers = make([]brokenServer, len(b.nodes))
	replies := make([]server.Reply, len(b.nodes))
	var each sync.WaitGroup
	for i := range b.nodes {
		each.Go(func() { replies[i] = b.release(i) })
	}
	each.Wait()
	count := make(map[string]int)
	for i, reply := range replies {
		s := &b.Servers[i]
		s.Address = b.nodes[i].address
		switch reply.Verdict {
		case server.Done:
			s.Result = wasBroken
		case server.Missing:
			s.Result = wasFree
		case server.Taken:
			s.Result = wasChanged
		default:
			s.Result, s.Error = wasUnclear, printable(shortened(reply.Err).Error())
			b.errs = append(b.errs, redimutex.NodeError{Node: i, Err: reply.Err})
		}
		count[s.Result]++
	}
	if after, err := look(b.nodes, b.Key); err == nil {
		b.After = after
	}
	switch {
	case tooMany(count[wasUnclear], len(b.nodes)):
		b.Result = wasUnclear // those who said nothing may still have a majority
	case count[wasBroken] > 0:
		b.Result = wasBroken
	case b.After != nil && b.After.Agree == 0:
		b.Result = wasFree
	default:
		b.Result = wasChanged
	}
}

// release deletes the lock on one server. Where a majority has the same holder it is his token that
// is compared, also on a server that had no answer when we looked; else that which the server has shown.
func (b *breach) release(i int) server.Reply {
	v, _ := prevailing(b.Before.views)
	if !b.Before.Held {
		v = b.Before.views[i]
		if !v.Held {
			return server.Reply{Verdict: server.Missing}
		}
	}
	s := server.New(b.nodes[i].pool)
	defer s.Close(0)
	return s.Release(&server.Request{
		Key:     b.Key,
		Token:   v.Holder,
		TTL:     max(v.Left, time.Second), // the fence of who gets the lock now has to last for longer than that
		Timeout: dialTimeout,
		// Who has queued since we looked finds the free lock by himself, within a second.
		Queue: b.Before.Waiting > 0,
	})
}

// status says what went wrong, and returns the exit status.
func (b *breach) status(stderr io.Writer) int {
	switch b.Result {
	case wasBroken:
		return exitOK
	case wasUnclear:
		fmt.Fprintf(stderr, "redimutex: can't break %q: %s; it may be broken or not\n", b.Key, printable(b.nodes.explain(errors.Join(b.errs...))))
		return exitUnavailable
	}
	return exitNotBroken
}

// tell says to people what became of the lock, and what its holder will see.
func (b *breach) tell(w io.Writer) {
	switch b.Result {
	case wasFree:
		fmt.Fprintln(w, "Nothing was broken: the lock is free.")
	case wasChanged:
		fmt.Fprintln(w, "Nothing was broken: the lock has changed hands since it was shown.")
		if b.After != nil {
			b.After.print(w)
		}
	case wasDeclined:
		fmt.Fprintln(w, "Nothing was broken.")
	case wasBroken:
		b.tellBroken(w)
	}
}

func (b *breach) tellBroken(w io.Writer) {
	fmt.Fprintln(w, "The lock is broken.")
	if b.After != nil {
		fmt.Fprintf(w, "  now: %s\n", b.After.sight)
	}
	for _, s := range b.Servers {
		if s.Error != "" {
			fmt.Fprintf(w, "  %s: %s; what it may have of the lock ends with its TTL\n", s.Address, s.Error)
		}
		if s.Result == wasChanged {
			fmt.Fprintf(w, "  %s: somebody else has the lock there\n", s.Address)
		}
	}
	switch {
	case !b.Before.Held:
		return
	case b.Before.Foreign:
		fmt.Fprintln(w, "  Its holder uses another library, which may not tell him. His code may still be running.")
	default:
		fmt.Fprintln(w, `  Its holder is told at his next renewal, within a third of his TTL, that his lease
  is lost, or when he unlocks, if he does not renew. His code may run until then.`)
	}
	if b.Before.Fence > 0 && !b.Before.Foreign {
		fmt.Fprintf(w, "  A resource that checks fences refuses his writes, with fence %d, once it has seen a higher one.\n", b.Before.Fence)
	} else {
		fmt.Fprintln(w, "  He has no fence, so nothing keeps his late writes out.")
	}
}
