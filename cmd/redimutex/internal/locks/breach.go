package locks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
	"github.com/redimutex/redimutex/internal/server"
)

// What became of a lock that was to be broken, on one server or on all of them.
const (
	wasBroken   = "broken"
	wasFree     = "free"
	wasChanged  = "changed" // another holder has it
	wasDeclined = "declined"
	wasUnclear  = "unknown" // too few servers have answered
)

// A breach is the breaking of a lock.
type breach struct {
	Key     string         `json:"key"`
	Result  string         `json:"result"`
	Before  *sight.Lock    `json:"before"`
	After   *sight.Lock    `json:"after"`
	Servers []brokenServer `json:"servers"`

	nodes servers.Set
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
		s.Address = b.nodes[i].Address
		switch reply.Verdict {
		case server.Done:
			s.Result = wasBroken
		case server.Missing:
			s.Result = wasFree
		case server.Taken:
			s.Result = wasChanged
		default:
			s.Result, s.Error = wasUnclear, servers.Words(reply.Err)
			b.errs = append(b.errs, &redimutex.NodeError{Node: i, Err: reply.Err})
		}
		count[s.Result]++
	}
	if after, err := sight.Look(context.Background(), b.nodes, b.Key); err == nil {
		b.After = after
	}
	switch {
	case servers.TooMany(count[wasUnclear], len(b.nodes)):
		b.Result = wasUnclear // those that said nothing may still have a majority
	case count[wasBroken] > 0:
		b.Result = wasBroken
	case b.After != nil && b.After.Agree == 0:
		b.Result = wasFree
	default:
		b.Result = wasChanged
	}
}

// release deletes the lock on one server. Where a majority has the same holder it compares the token of
// that, also on a server that had no answer when we looked; else the one that the server has shown.
func (b *breach) release(i int) server.Reply {
	v, _ := sight.Prevailing(b.Before.Views)
	if !b.Before.Held {
		v = b.Before.Views[i]
		if !v.Held {
			return server.Reply{Verdict: server.Missing}
		}
	}
	// A waiter that has queued since we looked finds the free lock by itself, within a second.
	queue := b.Before.Waiting > 0
	if !v.Kind.Shared {
		return b.nodes[i].Release(v.Kind, b.Key, v.Holder, v.Left, queue)
	}
	holders := v.Holders
	if len(holders) == 0 { // of readers whose set is lost, or may not be seen: a release ends the first, and is refused the other
		holders = []inspect.Holder{{}}
	}
	all := server.Reply{Verdict: server.Missing}
	for _, h := range holders {
		reply := b.nodes[i].Release(v.Kind, b.Key, h.Token, v.Left, queue)
		if reply.Err != nil {
			return reply
		}
		if reply.Verdict == server.Done || all.Verdict == server.Missing {
			all = reply
		}
	}
	return all
}

// status says what went wrong, and returns the exit status.
func (b *breach) status(stderr io.Writer) int {
	switch b.Result {
	case wasBroken:
		return cli.OK
	case wasUnclear:
		fmt.Fprintf(stderr, "redimutex: can't break %q: %s; it may be broken or not\n", b.Key, b.nodes.Explain(errors.Join(b.errs...)))
		return cli.Unavailable
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
			b.After.Print(w)
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
		fmt.Fprintf(w, "  now: %s\n", b.After.Sight)
	}
	for _, s := range b.Servers {
		if s.Error != "" {
			fmt.Fprintf(w, "  %s: %s; what it may have of the lock ends with its TTL\n", s.Address, s.Error)
		}
		if s.Result == wasChanged {
			fmt.Fprintf(w, "  %s: another holder has the lock there\n", s.Address)
		}
	}
	switch {
	case !b.Before.Held:
		return
	case b.Before.Holding > 1:
		fmt.Fprintln(w, `  Its holders learn that their leases are lost at their next renewals, within a third of their
  TTLs, or when they release them. Their code may run until then.`)
	case b.Before.Foreign:
		fmt.Fprintln(w, "  Its holder uses another library, which may not notice. Its code may still be running.")
	default:
		fmt.Fprintln(w, `  Its holder learns that its lease is lost at its next renewal, within a third of its
  TTL, or when it unlocks, if it does not renew. Its code may run until then.`)
	}
	switch {
	case b.Before.Shared():
	case b.Before.Fence > 0 && !b.Before.Foreign:
		fmt.Fprintf(w, "  A resource that checks fences refuses its writes, with fence %d, once it has seen a higher one.\n", b.Before.Fence)
	default:
		fmt.Fprintln(w, "  It has no fence, so nothing keeps its late writes out.")
	}
}
