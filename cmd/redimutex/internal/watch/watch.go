// Package watch is the verb that shows what happens to locks.
package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	o := &options{interval: defaultInterval, limit: -1}
	var given servers.URLs
	return &cli.Command{
		Name: "watch", Summary: "watch what happens to locks",
		Args: "KEY...", Keys: -1,
		About: []cli.Block{cli.Para(`Shows who holds the locks, and what happens to them, until Ctrl-C: at a terminal a
			picture that moves, until you type q; elsewhere a line with the time for each event. It changes nothing,
			and shows no token.`)},
		Flags: []*cli.Flag{
			servers.Flag(&given, ""),
			{Names: []string{"interval"}, Arg: "TIME", Value: cli.Time(&o.interval), Text: "Time between two looks. Default: 0.5; 50ms at least"},
			{Names: []string{"for"}, Arg: "TIME", Value: cli.Time(&o.limit), Text: "End after so long. Default: never"},
			{Names: []string{"until-free"}, Value: cli.Switch(&o.untilFree), Text: "End as soon as all of the locks are free."},
			{Names: []string{"json"}, Value: cli.Switch(&o.asJSON), Text: `For each look and KEY one JSON object on a line: time,
				key, known (false: too few servers answer, or it is unsure; error says why), held, kind, holding, owner, foreign, no_token,
				ttl_ms, age_ms, fence, waiting, agree and servers as in show -json, handovers_per_s, and events since the look
				before, a list with event, owner and from of each.`},
		},
		Notes: []cli.Section{
			{Blocks: []cli.Block{
				cli.Para(`A look is one round trip to each server, for all locks together. All servers are asked at the same
					time, and one that does not answer holds nothing up. What happens between two looks is not seen:`),
				cli.Sub("held or free", "Its state at the first look, or once a majority answers again."),
				cli.Sub("unreadable", "The servers answer, and refuse to show it: KEY is no lock, or the user may not read it."),
				cli.Sub("unsure", "Perhaps held: the servers that do not answer would decide."),
				cli.Sub("acquired", "It was free."),
				cli.Sub("handed over", `It had another holder at the last look. There may have been more in between, so the
					number of hand-offs a second is a lower bound.`),
				cli.Sub("released", `It was deleted before its time: by the holder's Unlock, by DEL,
					or by redimutex break.`),
				cli.Sub("expired", "Its time ran down without a renewal, and was over."),
				cli.Sub("gone", "It was so short that it may have been released or have expired."),
				cli.Sub("changed", `None of the readers, or holders of permits, of the last look still has it, or they are
					more or fewer.`),
				cli.Sub("came, went", `It was free both times, but its fence is higher than it was known to be. The first
					hold after an hour without any is not seen.`),
				cli.Para(`The bar shows the time left, against the longest seen of this hold. With several servers
					the lock is held if a majority has the same holder; watch lists the servers that do not agree. While too
					few servers answer, it goes on trying. Waiting are those with -queue or WithQueue, and readers and writers;
					others leave no trace.`),
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
				cli.Item("69", `at the start too few servers can be reached, or one of the KEYs is no lock or may not be read; stderr says
					why`), cli.WriteFails,
				cli.Item("128+N", "signal N ended it: 130 after Ctrl-C. It dies of the signal, so that a script around it ends as well")),
		},
		Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
			if err := o.check(in.Words); err != nil {
				return 0, err
			}
			return given.Use(servers.QuickTimeout, func(nodes servers.Set) (int, error) {
				o.nodes = nodes
				return o.run(t)
			})
		},
	}
}

// options are what one redimutex watch is asked to do.
type options struct {
	keys      []string
	nodes     servers.Set
	interval  time.Duration
	limit     time.Duration // negative: none
	untilFree bool
	asJSON    bool
}

// check takes over the keys, and returns what is wrong with them or with the times.
func (o *options) check(words []string) (err error) {
	if o.keys, err = cli.Keys(words); err != nil {
		return err
	}
	switch {
	case o.interval < minInterval:
		return fmt.Errorf("-interval %v: it has to be %v at least", o.interval, minInterval)
	case o.limit == 0:
		return errors.New("-for 0: it would not look even once; write a time such as 60 or 1h")
	}
	return nil
}

// run looks until an end is reached. It returns the exit status.
func (o *options) run(t *cli.Terminal) (int, error) {
	ctx, stop := cli.UntilSignal(context.Background())
	defer stop()
	surveys := newPoller(o.keys, o.nodes, o.interval).start(ctx)
	seen := newChronicle(o.keys)
	show := (&lines{w: t.Out, where: ", on " + o.nodes.Names(), asJSON: o.asJSON, chronicle: seen}).survey
	var picture *page // nil: there is no terminal, so lines are printed
	var frames <-chan time.Time
	var suspended <-chan os.Signal
	var quit <-chan struct{}
	if style := cli.StyleOf(t.Out); style.Terminal && !o.asJSON {
		picture = newPage(t, o, seen, style)
		defer picture.end()
		ticker := time.NewTicker(min(o.interval, frameTime))
		defer ticker.Stop()
		show, frames, suspended, quit = picture.survey, ticker.C, suspensions(), picture.keys.quit
	}
	var limit <-chan time.Time // counts from the first look
	free, first := false, true
	for {
		select {
		case s := <-surveys:
			if r := s.unknown(); r != nil && first {
				t.Warn("can't look at %q: %s", r.Key, o.nodes.Explain(r.Failure()))
				return cli.Unavailable, nil
			}
			if first && o.limit > 0 {
				limit = time.After(o.limit)
			}
			first = false
			show(s)
			if t.Out.Failed() != nil {
				return cli.WriteError, nil
			}
			if free = s.free(); free && o.untilFree {
				return cli.OK, nil
			}
		case <-frames:
			picture.frame(time.Now())
		case <-suspended:
			picture.suspend()
		case <-limit:
			return o.verdict(free), nil
		case <-quit:
			return o.verdict(free), nil
		case <-ctx.Done():
			return 0, context.Cause(ctx) // the signal
		}
	}
}

// verdict returns the exit status of a watch that ends by itself.
func (o *options) verdict(free bool) int {
	if o.untilFree && !free {
		return cli.Failure
	}
	return cli.OK
}
