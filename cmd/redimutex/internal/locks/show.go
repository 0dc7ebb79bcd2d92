// Package locks has the verbs that look at locks: list, show, and break, which deletes a lock that is stuck.
package locks

import (
	"context"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
)

// Show declares the verb that shows who holds a lock.
func Show() *cli.Command {
	var given servers.URLs
	var asJSON bool
	return &cli.Command{
		Name: "show", Summary: "show who holds a lock",
		Args: "KEY", Keys: 1,
		About: []cli.Block{cli.Para(`Shows who holds the lock KEY, since when, for how long if it is not renewed, and
			who waits; of a semaphore all who have a permit, and all readers. It changes nothing. It shows no token, because
			a token is all that one needs to release the lock.`)},
		Flags: []*cli.Flag{
			servers.Flag(&given, ""),
			{Names: []string{"json"}, Value: cli.Switch(&asJSON), Text: `One JSON object: key, held, kind (mutex, semaphore, reader or writer; "": free), holding (how many hold it), owner ("" if unknown, or many),
				foreign (the token is of another library), no_token (the
				value is no token that we know: perhaps it is no lock), ttl_ms (-1: the key never expires), age_ms (-1:
				unknown), fence (0: none is known; with
				several servers that of which a majority is sure), waiting, holders (of a semaphore, or readers: a list with
				owner and ttl_ms of each; 100 at most), queue (a list with owner, kind, waiting_ms and listening of
				each, null if unknown; the first 100), queue_looked_ms (since a waiter last looked; -1:
				unknown), agree (how many servers have the same holder), unsure (it may be held: the servers
				that did not answer would decide), and servers, a list with address, name (with the
				database), the same, and error of each.`},
		},
		Notes: []cli.Section{
			{Blocks: []cli.Block{
				cli.Para("With several servers a lock is held if a majority has the same holder. The view of each server follows."),
				cli.Sub("age", `Known if locks of this KEY are taken with fencing, as redimutex run does: the fence tells
					it. If some are and some are not, it may be the age of an earlier hold.`),
				cli.Sub("fence", `The last that was given for KEY. If some of its locks are taken with fencing and some are not, it may be
					that of an earlier hold.`),
				cli.Sub("waiting", `Those that wait with -queue or WithQueue, in order; and the number of processes in which
					readers and writers wait, with a queue or without. Others that poll leave no trace on the server.`),
				cli.Sub("kind", `A writer has the same key as the holder of a Mutex, and is called one while readers or writers
					wait. A lock that is being handed over to another process is held until that is done.`),
			}},
			{Title: "EXAMPLES", Blocks: []cli.Block{
				cli.Example("", "redimutex show nightly-backup"),
				cli.Example("Wait until it is free, without taking it:", "redimutex watch -until-free nightly-backup"),
			}},
			cli.Ends(cli.Item("0", "held"), cli.Item("1", "free"), cli.Item("2", "wrong usage"),
				cli.Item("69", `too few servers can be reached, and stderr says why; or they disagree so that those
					that did not answer would decide`), cli.WriteFails),
		},
		Run: looking(&given, func(t *cli.Terminal, _ servers.Set, r *sight.Lock) (int, error) {
			cli.Tell(t.Out, asJSON, r, r.Print)
			switch {
			case r.Held:
				return cli.OK, nil
			case r.Unsure:
				return cli.Unavailable, nil
			}
			return cli.Failure, nil // it is free
		}),
	}
}

// looking returns the Run function of a verb that first looks at the lock KEY.
func looking(
	given *servers.URLs, verb func(t *cli.Terminal, nodes servers.Set, lock *sight.Lock) (int, error),
) func(t *cli.Terminal, in *cli.Input) (int, error) {
	return func(t *cli.Terminal, in *cli.Input) (int, error) {
		key, err := cli.OneKey(in.Words)
		if err != nil {
			return 0, err
		}
		return given.Use(servers.QuickTimeout, func(nodes servers.Set) (int, error) {
			lock, err := sight.Look(context.Background(), nodes, key)
			if err != nil {
				t.Warn("can't look at %q: %s", key, nodes.Explain(err))
				return cli.Unavailable, nil
			}
			return verb(t, nodes, lock)
		})
	}
}
