package locks

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
	"github.com/redimutex/redimutex/internal/server"
)

// Break declares the verb that deletes a lock.
func Break() *cli.Command {
	var given servers.URLs
	var yes, asJSON bool
	return &cli.Command{
		Name: "break", Summary: "break a lock that is stuck",
		Args: "KEY", Keys: 1,
		About: []cli.Block{cli.Para(`Breaks the lock KEY: shows who holds it, asks, and deletes it, but only if the same
			holder still has it. The first waiter in its queue gets it. Of a semaphore, or of readers, it ends the holds
			of all that it shows, 1000 at most.`)},
		Flags: []*cli.Flag{
			servers.Flag(&given, "Then the lock is deleted on all of them."),
			{Names: []string{"y", "yes"}, Value: cli.Switch(&yes), Text: "Do not ask. Needed where stdin is not a terminal."},
			{Names: []string{"json"}, Value: cli.Switch(&asJSON), Text: `One JSON object: key, result (broken, free, changed,
				declined or unknown), before and after, as redimutex show -json has them (after is null if
				nothing was tried), and servers, a list with address, name, result and error of each.`},
		},
		Notes: []cli.Section{
			{Title: "BEFORE YOU BREAK IT", Blocks: []cli.Block{cli.Para(`The lock of a crashed holder ends by itself: look at its
				TTL, which rises again when a living holder renews it. A short TTL that rises is a holder at work.`)}},
			{Title: "WHAT THE HOLDER WILL SEE", Blocks: []cli.Block{
				cli.Para(`Breaking does not stop the holder. One that renews its lease finds out at its next renewal, within a third of
					its TTL, that the lease is lost (deleted or taken); redimutex run then ends its command. A holder
					that does not renew finds out when it unlocks. Until then its code may run beside that
					of the next holder. Only a resource that checks fences refuses its late writes.
					A holder that uses another library may never find out.`),
				cli.Para(`With several servers, break also deletes a lock that only a minority of them has. Such a lock is not held,
					and it keeps waiters from getting a majority.`),
			}},
			{Title: "EXAMPLES", Blocks: []cli.Block{
				cli.Example("", "redimutex break nightly-backup"),
				cli.Example("In a script:", "redimutex break -yes -json nightly-backup | jq -r .result"),
			}},
			cli.Ends(cli.Item("0", "broken"),
				cli.Item("1", "nothing was broken: it was free, changed hands meanwhile, or you said no"),
				cli.Item("2", "wrong usage, or stdin is not a terminal and -yes is missing"),
				cli.Item("69", "too few servers can be reached, or they refuse, or KEY is no lock; stderr says why"), cli.WriteFails),
		},
		Run: looking(&given, func(t *cli.Terminal, nodes servers.Set, before *sight.Lock) (int, error) {
			if len(before.Most.Holder) > inspect.Longest {
				t.Warn("can't break %q: its value is longer than the token of any lock; if it is in the way, delete it with DEL",
					cli.Printable(before.Key))
				return cli.Unavailable, nil
			}
			if before.Agree > 0 && !yes && !cli.IsTerminal(t.In) {
				return 0, errors.New("can't ask, because stdin is not a terminal; -yes breaks the lock without asking")
			}
			b := &breach{Key: before.Key, Before: before, Servers: []brokenServer{}, nodes: nodes}
			if asJSON && !yes {
				before.Print(t.Err) // stdout is only for the script
			} else if !asJSON {
				before.Print(t.Out)
			}
			switch {
			case before.Agree == 0:
				b.Result = wasFree
			case !yes && !b.confirm(t):
				b.Result = wasDeclined
			default:
				b.carryOut()
			}
			cli.Tell(t.Out, asJSON, b, b.tell)
			return b.status(t), nil
		}),
	}
}

// confirm asks the user whether to break the lock that was shown.
func (b *breach) confirm(t *cli.Terminal) bool {
	who := "That does not stop its holder, which may still be working."
	switch {
	case b.Before.Holding > 1:
		who = "That does not stop its holders, all of which may still be working."
	case !b.Before.Held:
		who = "Perhaps a client is taking the lock just now."
	}
	fmt.Fprintf(t.Err, "%s\nBreak %q on %s? [y/N] ", who, cli.Printable(b.Key), b.nodes.Names())
	answer, err := bufio.NewReader(t.In).ReadString('\n')
	if err != nil {
		fmt.Fprintln(t.Err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}

// The outcomes of breaking a lock, on one server or on all of them.
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
	Name    string `json:"name"` // with the database
	Result  string `json:"result"`
	Error   string `json:"error,omitempty"`
}

// carryOut deletes the lock on every server on which it still has the token that was shown.
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
		s.Address, s.Name = b.nodes[i].Address, b.nodes[i].Name
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
		b.Result = wasUnclear // servers that did not answer may still have a majority
	case count[wasBroken] > 0 && !(b.Before.Held && servers.TooMany(count[wasFree]+count[wasChanged], len(b.nodes))):
		b.Result = wasBroken // otherwise only the remains of a release were deleted
	case b.After != nil && b.After.Agree == 0:
		b.Result = wasFree
	default:
		b.Result = wasChanged
	}
}

// release deletes the lock on one server. If a majority has the same holder, release compares the token of that holder, even
// on a server that did not answer the look. Otherwise it compares the token that this server has shown.
func (b *breach) release(i int) server.Reply {
	v := b.Before.Most
	if !b.Before.Held {
		switch view := b.Before.Views[i]; {
		case b.Before.Servers[i].Error != "": // it may have the token that the others have shown
		case view.Kind == nil:
			return server.Reply{Verdict: server.Missing}
		default:
			v = view
		}
	}
	// A waiter that has queued since the look finds the free lock by itself, within a second.
	queue := b.Before.Waiting > 0
	if !v.Kind.Shared {
		return b.nodes[i].Release(v.Kind, b.Key, v.Holder, v.Left, queue)
	}
	all := server.Reply{Verdict: server.Missing}
	if len(v.Holders) == 0 { // readers whose set is lost: any release deletes the lock; or may not be seen: none does
		all = b.nodes[i].Release(v.Kind, b.Key, "", v.Left, queue)
		if now, err := sight.Look(context.Background(), b.nodes[i:i+1], b.Key); err == nil && !now.Held && all.Verdict == server.Missing {
			all.Verdict = server.Done
		}
	}
	for _, h := range v.Holders {
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

// status reports what went wrong, and returns the exit status.
func (b *breach) status(t *cli.Terminal) int {
	switch b.Result {
	case wasBroken:
		return cli.OK
	case wasUnclear:
		outcome := ""
		refused := func(err error) bool { return errors.As(err, new(redis.Error)) }
		if slices.ContainsFunc(b.errs, func(err error) bool { return !refused(err) }) {
			outcome = "; it may be broken or not"
		}
		t.Warn("can't break %q: %s%s", b.Key, b.nodes.Explain(errors.Join(b.errs...)), outcome)
		return cli.Unavailable
	}
	return cli.Failure
}

// tell prints what happened to the lock, and what its holder will see.
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
			fmt.Fprintf(w, "  %s: %s; what it may have of the lock ends with its TTL\n", s.Name, s.Error)
		}
		if s.Result == wasChanged {
			fmt.Fprintf(w, "  %s: another holder has the lock there\n", s.Name)
		}
	}
	switch {
	case !b.Before.Held && !b.Before.Unsure:
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
		fmt.Fprintf(w, `  If it was taken with fencing, as redimutex run does, a resource that checks fences refuses
  its writes, with fence %d, once it has seen a higher one. Else nothing keeps them out.
`, b.Before.Fence)
	default:
		fmt.Fprintln(w, "  It has no fence, so nothing keeps its late writes out.")
	}
}
