// Package watch is the verb that shows what happens to locks.
package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

const (
	defaultInterval = 500 * time.Millisecond
	minInterval     = 50 * time.Millisecond
)

// Command declares the verb.
func Command() *cli.Command {
	v := &vigil{interval: defaultInterval}
	var given servers.URLs
	limit := &cli.Flag{Names: []string{"for"}, Arg: "TIME", Value: cli.Time(&v.limit), Text: "End after so long. Default: never"}
	return &cli.Command{
		Name: "watch", Summary: "watch what happens to locks",
		Args: "KEY...", Keys: -1,
		About: []cli.Block{cli.Para(`Shows who holds the locks, and what happens to them, until Ctrl-C: at a terminal a
			picture that moves, until you type q; elsewhere a line with the time for each event. It changes nothing,
			and shows no token.`)},
		Flags: []*cli.Flag{
			servers.Flag(&given, ""),
			{Names: []string{"interval"}, Arg: "TIME", Value: cli.Time(&v.interval), Text: "Time between two looks. Default: 0.5; 50ms at least"},
			limit,
			{Names: []string{"until-free"}, Value: cli.Switch(&v.untilFree), Text: "End as soon as nobody holds any of the locks."},
			{Names: []string{"json"}, Value: cli.Switch(&v.asJSON), Text: `For each look and KEY one JSON object on a line: time,
				key, known (false: too few servers answer; error says why), held, owner, foreign, ttl_ms, age_ms,
				fence, waiting, agree and servers as in show -json, handovers_per_s, and events since the look
				before, a list with event, owner and from of each.`},
		},
		Notes: []cli.Section{
			{Blocks: []cli.Block{
				cli.Para(`A look is one round trip to each server, for all locks together. All servers are asked at the same
					time, and one that does not answer holds nothing up. What happens between two looks is not seen:`),
				cli.Sub("acquired", "It was free."),
				cli.Sub("handed over", `It had another holder at the last look. There may have been more in between, so the
					number of hand-overs a second is a lower bound.`),
				cli.Sub("released", `Its time was not over, so somebody deleted it: the holder by Unlock, or anybody else by DEL
					or redimutex break.`),
				cli.Sub("expired", "Its time ran down without a renewal, and was over."),
				cli.Sub("gone", "It was so short that it may have been released or have expired."),
				cli.Sub("came, went", "It was free both times, but its fence is higher now."),
				cli.Para(`The bar is the time that is left, of the longest that was seen of this hold. With several servers
					the lock is held if a majority has the same holder; watch lists the servers that do not agree. While too
					few servers answer, it goes on trying. Waiting are those with -queue or WithQueue; others leave no
					trace.`),
			}},
			{Title: "EXAMPLES", Blocks: []cli.Block{
				cli.Example("", "redimutex watch nightly-backup deploy"),
				cli.Example("What happens to a lock in an hour:", "redimutex watch -for 1h deploy >deploy.log"),
				cli.Example("Wait until it is free, but no longer than a minute:", "redimutex watch -until-free -for 60 deploy"),
				cli.Example("When it was handed over, and to whom:", "redimutex watch -json deploy | jq -c 'select(.events != [])'"),
			}},
			cli.Ends(cli.Item("0", "-for is over, or you typed q, or with -until-free all locks are free"),
				cli.Item("1", "with -until-free: it ended, and a lock is not free"),
				cli.Item("2", "wrong usage"),
				cli.Item("69", "too few servers can be reached at the start; stderr says why"), cli.WriteFails,
				cli.Item("128+N", "signal N ended it: 130 after Ctrl-C")),
		},
		Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
			if err := v.check(in.Words, limit.Given); err != nil {
				return 0, err
			}
			var err error
			if v.nodes, err = servers.Find(given, servers.QuickTimeout); err != nil {
				return 0, err
			}
			defer v.nodes.Close()
			return v.run(t), nil
		},
	}
}

// A vigil is what one redimutex watch is asked to do.
type vigil struct {
	keys      []string
	nodes     servers.Set
	interval  time.Duration
	limit     time.Duration // 0: none
	untilFree bool
	asJSON    bool
}

// check takes the keys in, and says what is wrong with them or with the times.
func (v *vigil) check(words []string, limited bool) error {
	if len(words) == 0 {
		_, err := cli.OneKey(words)
		return err
	}
	for _, word := range words {
		key, err := cli.OneKey([]string{word})
		if err != nil {
			return err
		}
		if !slices.Contains(v.keys, key) {
			v.keys = append(v.keys, key)
		}
	}
	switch {
	case v.interval < minInterval:
		return cli.Usagef("-interval %v: it has to be %v at least", v.interval, minInterval)
	case limited && v.limit == 0:
		return errors.New("-for 0: it would not look even once; write a time such as 60 or 1h")
	}
	return nil
}

// run looks until it is enough. It returns the exit status.
func (v *vigil) run(t *cli.Terminal) int {
	ctx, stop := cli.UntilSignal(context.Background())
	defer stop()
	surveys := newLookout(v.keys, v.nodes, v.interval).start(ctx)
	show := v.newShow(t.Out)
	defer show.end()
	frames := time.NewTicker(min(v.interval, frameTime))
	defer frames.Stop()
	suspended := show.suspensions()
	keys := v.listen(t, show)
	defer keys.close()
	var limit <-chan time.Time // counts from the first look
	free, first := false, true
	for {
		select {
		case s := <-surveys:
			if err := s.failure(); err != nil && first {
				fmt.Fprintf(t.Err, "redimutex: can't look at %q: %s\n", s.unknown().Key, v.nodes.Explain(err))
				return cli.Unavailable
			}
			if first && v.limit > 0 {
				limit = time.After(v.limit)
			}
			first = false
			show.survey(s)
			if t.Out.Failed() != nil {
				return cli.WriteError
			}
			if free = s.free(); free && v.untilFree {
				return cli.OK
			}
		case <-frames.C:
			show.frame(time.Now())
		case <-suspended:
			keys.release()
			show.suspend()
			keys.take()
		case <-limit:
			return v.verdict(free)
		case <-keys.quit:
			return v.verdict(free)
		case <-ctx.Done():
			var sig cli.Signalled
			errors.As(context.Cause(ctx), &sig) // nothing else ends it
			return sig.Status()
		}
	}
}

// verdict is the exit status of a vigil that ends by itself.
func (v *vigil) verdict(free bool) int {
	if v.untilFree && !free {
		return cli.Failure
	}
	return cli.OK
}
