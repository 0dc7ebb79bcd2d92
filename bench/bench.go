package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/bench/internal/work"
	"github.com/redimutex/redimutex/internal/lab/progress"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A version is one version of redimutex, with worker processes and a book of its own.
type version struct {
	name    string
	program string // of the workers
	book    figures.Book
	crew    *work.Crew
}

// A bench runs trials, one after the other.
type bench struct {
	t        testing.TB // its cleanup ends the servers
	servers  []*redistest.Server
	versions []*version // the first is that of the working tree; its workers also run the other libraries
	out      io.Writer  // of the progress
	bar      *progress.Bar
	began    time.Time
	done     time.Duration // how much of the planned time is over
	spans    map[string][]work.Span
}

// A turn is one library, run by the workers of one version.
type turn struct {
	library string
	by      *version
}

// overhead is about how long a turn takes besides its set-up, warm-up and measurement.
const overhead = 200 * time.Millisecond

// takes returns how long a turn takes.
func (t *trial) takes() time.Duration { return t.warm + t.run + t.job.SetUp() + overhead }

// turns returns the turns of a round.
func (b *bench) turns(t *trial) (all []turn) {
	for _, name := range t.who {
		library, _ := entrants.Find(name)
		for i, v := range b.versions {
			if i == 0 || library.Ours() {
				all = append(all, turn{name, v})
			}
		}
	}
	return all
}

func (b *bench) run(ctx context.Context, all []trial) error {
	var total time.Duration
	for i := range all {
		total += time.Duration(all[i].rounds*len(b.turns(&all[i]))) * all[i].takes()
	}
	b.bar, b.began = progress.Start(b.out, total), time.Now()
	for i := range all {
		if err := b.trial(ctx, &all[i]); err != nil {
			return err
		}
	}
	b.bar.Line("It took %v.\n", time.Since(b.began).Round(time.Second))
	return nil
}

// trial lets the libraries take turns in short rounds. Every other round has the opposite order, so that a machine whose speed
// drifts favours no library. A turn that fails is noted, and has no figures.
func (b *bench) trial(ctx context.Context, t *trial) error {
	defer b.dismiss()
	for len(b.servers) < t.servers {
		b.servers = append(b.servers, redistest.Real(b.t))
	}
	var addrs []string
	for _, s := range b.servers {
		if t.away > 0 {
			addrs = append(addrs, s.Far(t.away/2).Addr())
		} else {
			addrs = append(addrs, s.Addr())
		}
	}
	if t.busy {
		defer spin()()
	}
	turns := b.turns(t)
	b.bar.Line("%3.0f%% after %v: %s", 100*b.bar.Share(b.done), time.Since(b.began).Round(time.Second), t.title)
	for round := range t.rounds {
		for _, turn := range turns {
			b.bar.Show(b.done, fmt.Sprintf("%s, round %d of %d: %s", t.title, round+1, t.rounds, turn.library))
			if err := b.turn(ctx, t, turn, round, addrs); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				b.note("%s, %s, round %d has no figures: %v", t.name, turn.library, round+1, err)
				b.dismiss() // the workers may still be in the middle of the job
			}
			b.done += t.takes()
		}
		slices.Reverse(turns)
	}
	return nil
}

// turn runs the job once with one library.
func (b *bench) turn(ctx context.Context, t *trial, who turn, round int, addrs []string) (err error) {
	if who.by.crew == nil {
		if who.by.crew, err = work.Start(who.by.program, t.workers); err != nil {
			return err
		}
	}
	j := t.job
	j.Library, j.TTL, j.Warm, j.Run = who.library, cmp.Or(j.TTL, ttl), t.warm, t.run
	j.Key, j.Addrs = fmt.Sprintf("%s:%d", t.name, round), addrs
	for _, s := range b.servers {
		s.Do("FLUSHALL") // what an earlier turn left behind would be in the way, or cost memory
	}
	results, err := who.by.crew.Do(ctx, j)
	if err != nil || results[0].Missing {
		return err
	}
	library, _ := entrants.Find(who.library)
	var spans []work.Span
	for _, v := range b.versions {
		if v == who.by || !library.Ours() {
			spans = t.take(&v.book, figures.Row{Case: t.name, Library: who.library}, round, results)
		}
	}
	for _, r := range results {
		if r.Failures > 0 {
			b.note("%s, %s: %d calls failed, such as: %s", t.name, who.library, r.Failures, r.Failure)
		}
	}
	if t.name == pictured {
		b.spans[who.library] = spans
	}
	return nil
}

// note adds to the report what should not have happened.
func (b *bench) note(format string, args ...any) {
	book := &b.versions[0].book
	book.Trouble = append(book.Trouble, fmt.Sprintf(format, args...))
}

// dismiss ends the workers.
func (b *bench) dismiss() {
	for _, v := range b.versions {
		if v.crew != nil {
			v.crew.Close()
			v.crew = nil
		}
	}
}

// spin keeps all cores busy until it is told to stop.
func spin() (stop func()) {
	var stopped atomic.Bool
	for range runtime.NumCPU() {
		go func() {
			for !stopped.Load() {
			}
		}()
	}
	return func() { stopped.Store(true) }
}
