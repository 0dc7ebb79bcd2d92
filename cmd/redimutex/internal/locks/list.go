package locks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// List declares the verb that lists the locks on the servers.
func List() *cli.Command {
	l := &listing{seen: make(map[string]bool)}
	var given servers.URLs
	var asJSON bool
	order := "" // sorts like "key", but then -limit ends the search
	return &cli.Command{
		Name: "list", Summary: "list the locks on the servers",
		Args: "[PATTERN]",
		About: []cli.Block{
			cli.Para(`Lists the locks on the server: who holds each, since when, for how long if it is not renewed, and
				how many wait. It changes nothing and shows no tokens.`),
			cli.Para(`PATTERN is a pattern of Redis: * is anything, ? is one character, [ab] is one of these. Quote
				it, or the shell will expand it. Without it, list looks at all keys.`),
		},
		Flags: []*cli.Flag{
			servers.Flag(&given, ""),
			{
				Names: []string{"sort"}, Arg: "BY", Value: cli.Choice(&order, "key", "ttl", "age", "waiters"),
				Text: `key, ttl (what ends first), age (the oldest first) or waiters (the most first). Default: key`,
			},
			{
				Names: []string{"limit"}, Arg: "N", Value: cli.Number(&l.limit, 1, math.MaxInt32, "a number of locks, 1 at least and 2147483647 at most"),
				Text: `List N locks at most: with -sort the first N of all in that order; without it, the first N
					that are found, and then it stops. Default: no limit`,
			},
			{Names: []string{"all"}, Value: cli.Switch(&l.all), Text: `List also what does not look like a lock, but may be one:
				any string that is not longer than 300 bytes, such as a lock made by SETNX.`},
			{Names: []string{"json"}, Value: cli.Switch(&asJSON), Text: `One JSON object: complete, asked (the servers, with
				their databases), locks (a list, each as
				redimutex show -json has it, but without holders, queue and queue_looked_ms), errors, a list with
				address, name and error of each server that failed, and refused (how many keys this user may not read: the list
				leaves them out). What is not UTF-8 in a key is U+FFFD, so two such keys may look the same.`},
		},
		Notes: listHelp,
		Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
			var err error
			if l.pattern, err = onePattern(in.Words); err != nil {
				return 0, err
			}
			l.whole = order != ""
			return given.Use(servers.QuickTimeout, func(nodes servers.Set) (int, error) {
				l.nodes = nodes
				return l.list(t, order, asJSON)
			})
		},
	}
}

// listHelp is the rest of the help of list.
var listHelp = []cli.Section{
	{Title: "WHAT IS LISTED", Blocks: []cli.Block{
		cli.Para(`A lock is a string key that expires, with a token as redimutex writes it, or one that has a queue,
			a fence or readers beside it; or a sorted set of tokens that expires, a semaphore. If the token looks like that of another library, the owner is (foreign).
			That is a guess: a digest or a random id in a cache has the same form.
			With -all, a value that looks like no token is (perhaps no lock). Locks that last for some
			milliseconds come and go while list looks, so it may miss them.`),
		cli.Item("KEY", "One of more than 100 characters is cut, and ends with three dots; -json has all of it."),
		cli.Item("OWNER", `The label of the holder; - if it has none. redimutex run gives host, pid and the name of
			the command. Of many holders it is their number and what they are: redimutex show names them.`),
		cli.Item("AGE", "Known if the lock was taken with fencing, as redimutex run does; see redimutex show -h."),
		cli.Item("TTL", "When the lock ends if it is not renewed; of many leases the last."),
		cli.Item("WAITERS", `Those that wait in the queue, with -queue or WithQueue, and readers and writers. Others that poll leave
			no trace on the server.`),
		cli.Item("SERVERS", `With several servers: how many of them have the same holder. A majority is enough. A lock
			that only a minority has is not held: it is being taken or given up, or was lost.`),
		cli.Para("In a cluster, list looks at the node of the URL and no other: call it for each primary. show and break want the node that serves KEY."),
	}},
	{Title: "WHAT IT COSTS THE SERVER", Blocks: []cli.Block{
		cli.Para(`It goes through the keys in small steps by SCAN, and pauses after each for as long as the step
			took, 50ms at most. So a server with little else to do spends half of its time on it at most; a
			million keys take some ten seconds.
			It asks for the TTL of each key. It reads 41 bytes of strings that expire (301 bytes with -all, of all
			strings), one member of sorted sets that expire, and nothing of other keys. Of those that it lists it reads what
			show does, 64 KiB of a value at most.`),
		cli.Para(`A user that may only read needs: scan, pttl, type, getrange, exists, zcard, zrange, time, role, and if
			possible pubsub|numsub and dbsize.`),
	}},
	{Title: "EXAMPLES", Blocks: []cli.Block{
		cli.Example("", "redimutex list 'billing:*'"),
		cli.Example("The three locks that are held for longest:", "redimutex list -sort age -limit 3"),
		cli.Example("Which locks end within a second, unless they are renewed?",
			"redimutex list -json |\n  jq -r '.locks[] | select(.held and 0 <= .ttl_ms and .ttl_ms < 1000).key'"),
	}},
	cli.Ends(cli.Item("0", "listed; stderr says what is missing, because of -limit or of a server that failed"),
		cli.Item("2", "wrong usage"),
		cli.Item("69", "too few servers can be reached; stderr says why"), cli.WriteFails,
		cli.Item("130", "interrupted by Ctrl-C (143: by TERM); it prints what it has found until then, and dies of the signal")),
}

// list searches, and prints the locks that it has found.
func (l *listing) list(t *cli.Terminal, order string, asJSON bool) (int, error) {
	ctx, stop := cli.UntilSignal(context.Background())
	defer stop()
	by := l.run(ctx, t)
	r := l.inventory()
	r.Complete = r.Complete && by == nil
	if servers.TooMany(len(r.Errors), len(l.nodes)) && (by == nil || len(r.Locks) == 0) {
		t.Warn("can't list the locks: %s", l.nodes.Explain(r.failure))
		return cli.Unavailable, nil
	}
	r.arrange(order, l.limit)
	cli.Tell(t.Out, asJSON, r, func(w io.Writer) { r.print(w, l.nodes) })
	r.warn(t, by, l)
	return cli.OK, by
}

// onePattern returns the pattern among the operands, or "" for all keys.
func onePattern(words []string) (string, error) {
	if len(words) == 0 {
		return "", nil
	}
	if len(words) > 1 {
		return "", fmt.Errorf("expected one PATTERN at most, got %d arguments; quote the pattern, or the shell will expand it", len(words))
	}
	if cli.IsURL(words[0]) {
		return "", errors.New("there is a URL in the place of PATTERN; write -redis in front of it")
	}
	return words[0], nil
}
