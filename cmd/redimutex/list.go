package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

const listHelp = `Usage: redimutex list [FLAGS] [PATTERN]

Lists the locks on the server: who holds each, since when, for how long if it is
not renewed, and how many wait. It changes nothing and shows no tokens.

PATTERN is one of Redis: * is anything, ? one character, [ab] one of them.
Quote it, or the shell takes it for files. Without it, all keys are looked at.

  -redis URL  The server; repeat it for Redlock. -redis @FILE reads the URLs
              from a file. Default: $REDIMUTEX_URL (several with commas or
              spaces, or @FILE), else $REDIS_URL, else redis://127.0.0.1:6379
  -sort BY    key, ttl (what ends first), age (the oldest) or waiters (the
              most). Default: key
  -limit N    Stop when N locks are found. Default: no limit
  -all        List also what does not look like a lock, but may be one: any
              string that expires and is not longer than 300 bytes; and tokens
              in keys that never expire.
  -json       One JSON object: complete, locks (a list, each as redimutex show
              -json has it, but without the queue), and errors, a list with
              address and error of each server that failed.

WHAT IS LISTED
  A lock is a string key that expires, with a token as redimutex writes it; or
  one that has a queue or a fence beside it. If the token looks like that of
  another library, the owner is (foreign). That is a guess: a digest or a random
  id in a cache has the same form. Locks that last for some milliseconds come
  and go while list looks, so it may have them or not.

  OWNER    The label of the holder; - if it has given none. redimutex run
           gives its host, pid and command.
  AGE      Known if the lock was taken with fencing, as redimutex run does; see
           redimutex show -h.
  TTL      When the lock ends if it is not renewed.
  WAITERS  Those who wait in the queue, with -queue or WithQueue. Who asks
           again and again leaves no trace on the server.
  SERVERS  With several servers: how many of them have the same holder. A
           majority is enough. What a minority has is held by nobody: it is
           being taken or given up, or was lost.

  In a cluster, list looks at the node of the URL and no other: call it for each
  primary. show and break want the node that serves KEY.

WHAT IT COSTS THE SERVER
  It goes through the keys in small steps by SCAN, and pauses after each for as
  long as it took, so it never has more than half of the server's time; a
  million keys take some ten seconds. It reads 40 bytes of strings that expire
  (300 with -all), and nothing of other keys.
  A user who may only read needs: scan, pttl, getrange, exists, get, zcard,
  zrange, time, and if possible pubsub|numsub and dbsize.

EXAMPLES
  redimutex list 'billing:*'
  The locks that are held for longest:
    redimutex list -sort age
  Which locks end within a second, if nobody renews them?
    redimutex list -json | jq -r '.locks[] | select(.ttl_ms < 1000) | .key'

EXIT STATUS
  0    the list is complete, or ended by -limit; stderr says what is missing
  2    wrong usage
  69   too few servers can be reached; stderr says why
  130  interrupted by Ctrl-C (143: by TERM); what was found until then is
       printed
`

func listCommand(args []string, t terminal) int {
	l := &listing{seen: make(map[string]bool)}
	var given urls
	var asJSON bool
	order := "key"
	fs := newFlags("list")
	fs.Var(&given, "redis", "")
	fs.Func("sort", "", func(s string) error {
		if _, ok := orders[s]; !ok {
			return errors.New("write key, ttl, age or waiters")
		}
		order = s
		return nil
	})
	fs.Func("limit", "", func(s string) error {
		var err error
		if l.limit, err = strconv.Atoi(s); err != nil || l.limit < 1 {
			return errors.New("write a number of locks, 1 at least")
		}
		return nil
	})
	fs.BoolVar(&l.all, "all", false, "")
	fs.BoolVar(&asJSON, "json", false, "")
	words, err := parse(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		io.WriteString(t.out, listHelp) //nolint:errcheck // nowhere to say so
		return exitOK
	}
	if err == nil {
		l.pattern, err = onePattern(words)
	}
	if err == nil {
		l.nodes, err = findServers(given)
	}
	if err != nil {
		return usageError(t, "list", err)
	}
	defer l.nodes.close()

	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(s) { // as those of a shell's background job are
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	by := l.run(signals, newTicker(t.err))
	r := l.inventory()
	r.Complete = r.Complete && by == nil
	if tooMany(len(r.Errors), len(l.nodes)) && (by == nil || len(r.Locks) == 0) {
		fmt.Fprintf(t.err, "redimutex: can't list the locks: %s\n", printable(l.nodes.explain(errors.Join(l.errs...))))
		return exitUnavailable
	}
	slices.SortFunc(r.Locks, func(a, b *lockView) int {
		return cmp.Or(orders[order](a, b), strings.Compare(a.Key, b.Key))
	})
	if asJSON {
		printJSON(t.out, r)
	} else {
		r.print(t.out, len(l.nodes))
	}
	r.warn(t.err, by)
	if n, ok := by.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitOK
}

// onePattern returns the pattern among the words that are not flags, or "" for all keys.
func onePattern(words []string) (string, error) {
	if len(words) == 0 {
		return "", nil
	}
	if len(words) > 1 {
		return "", usagef("there has to be one PATTERN at most, and there are %d words that are not flags; quote a pattern, or the shell makes files of it", len(words))
	}
	for _, scheme := range []string{"redis://", "rediss://", "unix://"} {
		if strings.HasPrefix(words[0], scheme) {
			return "", errors.New("there is a URL in the place of PATTERN; write -redis in front of it")
		}
	}
	return words[0], nil
}

// orders are those of -sort. What is not known, or never ends, comes last.
var orders = map[string]func(a, b *lockView) int{
	"key":     func(a, b *lockView) int { return 0 },
	"ttl":     func(a, b *lockView) int { return cmp.Compare(uint64(a.shown().TTL), uint64(b.shown().TTL)) },
	"age":     func(a, b *lockView) int { return cmp.Compare(b.shown().Age, a.shown().Age) },
	"waiters": func(a, b *lockView) int { return cmp.Compare(b.Waiting, a.Waiting) },
}

// shown is what the list tells of a lock: that of the majority, or else of the holder that most have.
func (r *lockView) shown() sight {
	if r.Held {
		return r.sight
	}
	most, _ := prevailing(r.views)
	s := see(most)
	s.Fence, s.Waiting = r.Fence, r.Waiting
	return s
}

// An inventory is what list has found.
type inventory struct {
	Complete bool        `json:"complete"`
	Locks    []*lockView `json:"locks"`
	Errors   []listError `json:"errors"`

	limited bool
	seen    int // keys that were looked at
	refused int // those of them that may not be read
}

type listError struct {
	Address string `json:"address"`
	Error   string `json:"error"`
}

// maxOwner is how much of a label fits into the table.
const maxOwner = 48

// print shows the list to people.
func (r *inventory) print(w io.Writer, servers int) {
	if len(r.Locks) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	heads := []string{"KEY", "OWNER", "AGE", "TTL", "FENCE", "WAITERS"}
	if servers > 1 {
		heads = append(heads, "SERVERS")
	}
	fmt.Fprintln(table, strings.Join(heads, "\t"))
	for _, l := range r.Locks {
		s := l.shown()
		owner := []rune(cmp.Or(s.Owner, "-"))
		if s.Foreign {
			owner = []rune("(foreign)")
		}
		if len(owner) > maxOwner {
			owner = append(owner[:maxOwner-3], []rune("...")...)
		}
		cells := []string{printable(l.Key), string(owner), cellTime(s.Age, "-"), cellTime(s.TTL, "never"), "-", fmt.Sprint(s.Waiting)}
		if s.Fence > 0 {
			cells[4] = fmt.Sprint(s.Fence)
		}
		if servers > 1 {
			cells = append(cells, fmt.Sprintf("%d/%d", l.Agree, servers))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	table.Flush() //nolint:errcheck // nowhere to say so
}

// cellTime writes a number of milliseconds; none is what a negative one stands for.
func cellTime(ms int64, none string) string {
	if ms < 0 {
		return none
	}
	return brief(time.Duration(ms) * time.Millisecond).String()
}

// warn says what is missing in the list.
func (r *inventory) warn(w io.Writer, by os.Signal) {
	switch {
	case by != nil:
		fmt.Fprintf(w, "redimutex: interrupted after %d keys: the list is incomplete\n", r.seen)
	case r.limited:
		fmt.Fprintf(w, "redimutex: stopped after %d locks, as -limit says: there may be more\n", len(r.Locks))
	case len(r.Locks) == 0:
		fmt.Fprintf(w, "redimutex: there is no lock among %d keys\n", r.seen)
	}
	for _, e := range r.Errors {
		fmt.Fprintf(w, "redimutex: %s: %s; locks that only this server has are missing\n", e.Address, e.Error)
	}
	if r.refused > 0 {
		fmt.Fprintf(w, "redimutex: %d keys were passed over, because this user may not read them\n", r.refused)
	}
}
