package locks

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
)

const exitNotBroken = 1

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
				nothing was tried), and servers, a list with address, result and error of each.`},
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
				cli.Item("69", "too few servers can be reached, or they refuse; stderr says why"), cli.WriteFails),
		},
		Run: looking(&given, func(t *cli.Terminal, nodes servers.Set, before *sight.Lock) (int, error) {
			if before.Agree > 0 && !yes && !cli.IsTerminal(t.In) {
				return 0, errors.New("can't ask, because stdin is not a terminal; -yes breaks the lock without asking")
			}
			b := &breach{Key: before.Key, Before: before, Servers: []brokenServer{}, nodes: nodes}
			if asJSON && !yes {
				before.Print(t.Err) // what a script reads is alone on stdout
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
			if asJSON {
				cli.PrintJSON(t.Out, b)
			} else {
				b.tell(t.Out)
			}
			return b.status(t.Err), nil
		}),
	}
}

// confirm asks whether the lock that was shown is to be broken.
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
