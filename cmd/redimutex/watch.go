package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"
)

const watchHelp = `Usage: redimutex watch [FLAGS] KEY...

Shows who holds the locks, and what happens to them, until Ctrl-C: at a terminal
a picture that moves, elsewhere a line with the time for each event. It changes
nothing, and shows no token.

  -redis URL      The server; repeat it for Redlock. -redis @FILE reads the URLs
                  from a file. Default: $REDIMUTEX_URL (several with commas or
                  spaces, or @FILE), else $REDIS_URL, else
                  redis://127.0.0.1:6379
  -interval TIME  Time between two looks. Default: 0.5; 50ms at least
  -for TIME       End after so long. Default: never
  -until-free     End as soon as nobody holds any of the locks.
  -json           For each look and KEY one JSON object on a line: time, key,
                  known (false: too few servers answer; error says why), held,
                  owner, foreign, ttl_ms, age_ms, fence, waiting, agree and
                  servers as in show -json, handovers_per_s, and events since
                  the look before, a list with event, owner and from of each.

TIME is a number of seconds (5, 0.5) or has units (500ms, 1m30s).

A look is one round trip to each server, for all locks together. All servers
are asked at the same time, and one that does not answer holds nothing up.
What happens between two looks is not seen:

  acquired     It was free.
  handed over  It had another holder at the last look. There may have been more
               in between, so hand-overs a second are a lower bound.
  released     Its time was not over, so somebody deleted it: the holder by
               Unlock, or anybody else by DEL or redimutex break.
  expired      Its time ran down without a renewal, and was over.
  gone         It was so short that it may have been released or have expired.
  came, went   It was free both times, but its fence is higher now.

The bar is the time that is left, of the longest that was seen of this hold.
With several servers the lock is held if a majority has the same holder; those
that do not agree are listed. While too few servers answer, it goes on trying.
Waiting are those with -queue or WithQueue; others leave no trace.

EXAMPLES
  redimutex watch nightly-backup deploy
  What happens to a lock in an hour:
    redimutex watch -for 1h deploy >deploy.log
  Wait until it is free, but no longer than a minute:
    redimutex watch -until-free -for 60 deploy
  When it was handed over, and to whom:
    redimutex watch -json deploy | jq -c 'select(.events != [])'

EXIT STATUS
  0      -for is over, or with -until-free all locks are free
  1      with -until-free: -for is over, and a lock is not free
  2      wrong usage
  69     too few servers can be reached at the start; stderr says why
  128+N  signal N ended it: 130 after Ctrl-C
`

const (
	defaultInterval = 500 * time.Millisecond
	minInterval     = 50 * time.Millisecond
)

// A vigil is what one redimutex watch is asked to do.
type vigil struct {
	keys      []string
	nodes     servers
	interval  time.Duration
	limit     time.Duration // 0: none
	untilFree bool
	asJSON    bool
}

func watchCommand(args []string, t terminal) int {
	v, err := parseWatch(args)
	if errors.Is(err, flag.ErrHelp) {
		io.WriteString(t.out, watchHelp) //nolint:errcheck // nowhere to say so
		return exitOK
	}
	if err != nil {
		return usageError(t, "watch", err)
	}
	defer v.nodes.close()
	return v.run(t)
}

// parseWatch reads the arguments of watch. Its errors are about usage.
func parseWatch(args []string) (*vigil, error) {
	v := new(vigil)
	var given urls
	interval, limit := seconds(defaultInterval), seconds(0)
	fs := newFlags("watch")
	fs.Var(&given, "redis", "")
	fs.Var(&interval, "interval", "")
	fs.Var(&limit, "for", "")
	fs.BoolVar(&v.untilFree, "until-free", false, "")
	fs.BoolVar(&v.asJSON, "json", false, "")
	words, err := parse(fs, args)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 {
		_, err := oneKey(words)
		return nil, err
	}
	for _, word := range words {
		key, err := oneKey([]string{word})
		if err != nil {
			return nil, err
		}
		if !slices.Contains(v.keys, key) {
			v.keys = append(v.keys, key)
		}
	}
	set := make(map[string]bool)
	fs.Visit(func(f *flag.Flag) { set[f.Name] = true })
	v.interval, v.limit = time.Duration(interval), time.Duration(limit)
	switch {
	case v.interval < minInterval:
		return nil, usagef("-interval %v: it has to be %v at least", v.interval, minInterval)
	case set["for"] && v.limit == 0:
		return nil, errors.New("-for 0: it would not look even once; write a time such as 60 or 1h")
	}
	v.nodes, err = findServers(given)
	return v, err
}

// run looks until it is enough. It returns the exit status.
func (v *vigil) run(t terminal) int {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	surveys := newLookout(v.keys, v.nodes, v.interval).start(ctx)
	show := v.newShow(t.out)
	defer show.end()
	frames := time.NewTicker(min(v.interval, frameTime))
	defer frames.Stop()
	suspended := show.suspensions()
	var limit <-chan time.Time // counts from the first look
	free, first := false, true
	for {
		select {
		case s := <-surveys:
			if err := s.failure(); err != nil && first {
				fmt.Fprintf(t.err, "redimutex: can't look at %q: %s\n", s.unknown().Key, printable(v.nodes.explain(err)))
				return exitUnavailable
			}
			if first && v.limit > 0 {
				limit = time.After(v.limit)
			}
			first = false
			show.survey(s)
			if free = s.free(); free && v.untilFree {
				return exitOK
			}
		case <-frames.C:
			show.frame(time.Now())
		case <-suspended:
			show.suspend()
		case <-limit:
			if v.untilFree && !free {
				return exitFailure
			}
			return exitOK
		case <-ctx.Done():
			var sig signalled
			errors.As(context.Cause(ctx), &sig) // nothing else ends it
			return 128 + int(sig)
		}
	}
}
