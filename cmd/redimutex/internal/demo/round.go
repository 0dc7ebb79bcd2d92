package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A round is one way of raising the counter.
type round struct {
	title string
	lock  bool
	kill  bool          // a holder is killed halfway
	limit time.Duration // updates that are not done by then are left out
}

// job returns what the workers of the round must know.
func (r round) job(s *lockServer, c *counter) job {
	j := job{URLs: s.urls, Key: s.key, File: c.file.Name(), Lock: r.lock, Victim: -1}
	if r.kill {
		j.Victim = rand.N(workerCount)
	}
	return j
}

var rounds = []round{
	{title: "Without a lock", limit: 4 * time.Second},
	{title: "With the lock", lock: true, limit: 4 * time.Second},
	{title: "With the lock, and a holder killed", lock: true, kill: true, limit: 6 * time.Second},
}

const (
	lingerTime = 200 * time.Millisecond // how long the victim holds the lock before it is killed
	graceTime  = 3 * time.Second        // for workers to end a round after they were told
)

// A result says how a round went.
type result struct {
	round
	acknowledged int // updates that workers reported as written
	givenUp      int // updates that were not written, because the lease was lost
	counter      int // the number in the file after the round
	timeline     timeline
	timedOut     bool
	planned      int    // updates
	failure      string // the last reason why a worker could not update
}

// lost returns how many acknowledged updates are not in the counter. It is exact: a worker reports an update after writing it,
// and the victim is killed between reading and writing. So no update is written and not reported.
func (r *result) lost() int { return max(0, r.acknowledged-r.counter) }

// incomplete returns an error if the round did not show what it was for.
func (r *result) incomplete() error {
	switch {
	case r.failed():
		return &serverError{r.failure}
	case r.counter > r.acknowledged:
		return fmt.Errorf("the counter says %d, but only %d updates were reported", r.counter, r.acknowledged)
	case r.kill && r.timeline.death == nil:
		return errors.New("no worker that held the lock could be killed in time")
	case r.kill && !r.timeline.death.over():
		return errors.New("the lock of the killed worker did not come free in time")
	}
	return nil
}

// failed reports whether the workers could not do their work. A few failures only show that the machine is busy.
func (r *result) failed() bool { return r.failure != "" && r.acknowledged < r.planned/2 }

// words describes the result, in lines of at most width columns.
func (r *result) words(width int) string {
	var b strings.Builder
	say := func(format string, args ...any) { cli.Wrap(&b, "   ", "   ", fmt.Sprintf(format, args...), width) }
	if d := r.timeline.death; d != nil {
		say("Worker %d was killed at %s: it held the lock, had read, and not written yet.", d.worker+1, inSeconds(d.at))
		if d.over() {
			say("Worker %d got the lock %s later, by itself: the TTL is %s.", d.successor+1, inSeconds(d.recovery()), inSeconds(lockTTL))
		}
	}
	told := "no update was lost."
	if n := r.lost(); n > 0 {
		told = fmt.Sprintf("%s lost.", were(n))
	}
	say("%s, and the counter says %d: %s", cli.Count(r.acknowledged, "update"), r.counter, told)
	if peak := r.timeline.crowd(0, r.timeline.length); peak > 1 {
		say("Up to %d goroutines were in the critical section at once.", peak)
	} else {
		say("There was never more than one goroutine in the critical section.")
	}
	if r.givenUp > 0 {
		say("%s given up, because the lease was lost before the update was written.", were(r.givenUp))
	}
	if r.timedOut {
		say("The round was ended after %v; this machine is busy.", r.limit)
	}
	return b.String()
}

func were(n int) string {
	if n == 1 {
		return "1 was"
	}
	return fmt.Sprintf("%d were", n)
}

// A play is a round under way.
type play struct {
	*result
	*crew
	open  map[[2]int]span // who is in the critical section, by worker and goroutine
	each  map[int]int     // updates of each worker
	heard time.Time       // when the last update was acknowledged
	alarm *time.Timer     // fires when something is due, whatever the workers report
	due   func() error
}

// play follows a round of the crew, which was just started.
func (c *crew) play(ctx context.Context, r round, n *counter, bar *cli.Progress) (*result, error) {
	p := &play{
		result: &result{round: r, planned: workerCount * goroutineCount * updateCount}, crew: c, heard: c.began,
		open: make(map[[2]int]span), each: make(map[int]int),
		alarm: time.NewTimer(r.limit),
	}
	defer p.alarm.Stop()
	p.due = p.timeOut
	defer bar.End()
	for c.alive > 0 {
		var err error
		select {
		case <-bar.Due():
			bar.Show(fmt.Sprintf("   %d of %d updates", p.acknowledged, p.planned))
		case r := <-c.reports:
			err = p.take(r)
		case <-p.alarm.C:
			err = p.due()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	p.timeline.finish(time.Since(p.began))
	var err error
	p.counter, err = n.read()
	return p.result, err
}

// set makes the play call due after d, in place of what was due before.
func (p *play) set(d time.Duration, due func() error) {
	p.alarm.Reset(d)
	p.due = due
}

// rest sets the alarm for the end of the round.
func (p *play) rest() { p.set(p.limit-time.Since(p.began), p.timeOut) }

// take handles the report of a worker.
func (p *play) take(r report) error {
	if r.gone {
		return p.end(r)
	}
	id := [2]int{r.worker, r.Goroutine}
	at := time.Unix(0, r.At).Sub(p.began)
	switch r.Kind {
	case eventEnter, eventLinger:
		p.open[id] = span{worker: r.worker, goroutine: r.Goroutine, from: at}
		if r.Kind == eventLinger {
			p.set(lingerTime, func() error { return p.strike(r.worker) })
		}
	case eventDone, eventGivenUp:
		s := p.open[id]
		delete(p.open, id)
		s.to = max(at, s.from)
		p.timeline.spans = append(p.timeline.spans, s)
		if r.Kind == eventGivenUp {
			p.givenUp++
			if !p.timedOut {
				p.rest() // a victim that lost the lock before it was killed lingers again
			}
			break
		}
		p.heard = time.Now()
		p.acknowledged++
		p.each[r.worker]++
	case eventError:
		p.failure = r.Text
		if time.Since(p.heard) > lockLimit {
			p.stop() // it is useless to go on
		}
	}
	return nil
}

// strike kills the victim, which holds the lock.
func (p *play) strike(victim int) error {
	p.timeline.death = &death{worker: victim, at: time.Since(p.began)}
	p.rest()
	if err := p.workers[victim].cmd.Process.Kill(); err != nil {
		return fmt.Errorf("worker %d could not be killed: %w", victim+1, err)
	}
	return nil
}

// end handles the end of a worker process.
func (p *play) end(r report) error {
	p.alive--
	d := p.timeline.death
	switch {
	case d != nil && d.worker == r.worker:
	case r.err != nil:
		return fmt.Errorf("worker %d has ended unexpectedly: %w %s", r.worker+1, r.err, p.failure)
	default:
		return nil
	}
	p.planned -= goroutineCount*updateCount - p.each[r.worker]
	for id, s := range p.open {
		if s.worker == r.worker {
			delete(p.open, id)
			s.to = d.at
			p.timeline.spans = append(p.timeline.spans, s)
		}
	}
	return nil
}

// timeOut ends a round that takes too long.
func (p *play) timeOut() error {
	p.timedOut = true
	p.stop()
	p.set(graceTime, func() error { return errors.New("the workers did not end the round") })
	return nil
}
