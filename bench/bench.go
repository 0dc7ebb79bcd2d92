package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/bench/internal/work"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A bench runs trials, one after the other. All but one need a single server, and the others are started for that one.
type bench struct {
	t        testing.TB // what ends the servers
	servers  []*redistest.Server
	addrs    []string // of the servers, as the trial reaches them
	far      string   // of the first, as its last process reaches it, if that is another
	book     *figures.Book
	out      io.Writer // of the progress
	progress *meter
	pace     func(*trial) pace
}

// overhead is about what a round costs on top of its pace.
const overhead = 200 * time.Millisecond

// planned is how long a trial takes.
func (b *bench) planned(t *trial) time.Duration {
	p := b.pace(t)
	return time.Duration(p.rounds*len(t.entrants())) * t.takes(p)
}

// takes is how long a round takes.
func (t *trial) takes(p pace) time.Duration { return p.warm + p.run + t.job.SetUp() + overhead }

// entrants are the names of those that take turns.
func (t *trial) entrants() []string {
	names := with(t.libraries)
	for _, o := range t.others {
		names = append(names, o.name)
	}
	return names
}

// run runs the trials. A library that fails in a round is noted, and has no figures of that round.
func (b *bench) run(ctx context.Context, all []trial) error {
	var total time.Duration
	for i := range all {
		total += b.planned(&all[i])
	}
	b.progress = startMeter(b.out, total)
	defer b.progress.end()
	for i := range all {
		if err := b.trial(ctx, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

// trial has the libraries take turns in short rounds, every other time in the opposite order, so
// that a machine whose speed wanders does not favour any of them.
func (b *bench) trial(ctx context.Context, t *trial) error {
	p := b.pace(t)
	var crew *work.Crew
	defer func() {
		if crew != nil {
			crew.Close()
		}
	}()
	b.reach(t)
	entrants := t.entrants()
	for round := range p.rounds {
		for _, name := range entrants {
			b.progress.show(fmt.Sprintf("%s, round %d of %d: %s", t.title, round+1, p.rounds, name))
			if crew == nil {
				var err error
				if crew, err = work.Start(t.workers); err != nil {
					return err
				}
			}
			if err := b.round(ctx, crew, t, name, round); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				b.book.Trouble = append(b.book.Trouble, fmt.Sprintf("%s, %s, round %d has no figures: %v", t.name, name, round+1, err))
				crew.Close() // its workers may be anywhere
				crew = nil
			}
			b.progress.add(t.takes(p))
		}
		slices.Reverse(entrants)
	}
	return nil
}

// reach starts the servers that the trial has more than others, and puts delays in front of them.
func (b *bench) reach(t *trial) {
	for len(b.servers) < t.servers {
		b.servers = append(b.servers, redistest.Real(b.t))
	}
	b.addrs, b.far = nil, ""
	for _, s := range b.servers {
		addr := s.Addr()
		if t.away > 0 {
			addr = s.Network(t.away / 2).Addr()
		}
		b.addrs = append(b.addrs, addr)
	}
	if t.job.RoundTrip > 0 {
		b.far = b.servers[0].Network(t.job.RoundTrip / 2).Addr()
	}
}

// round has one library do the job once.
func (b *bench) round(ctx context.Context, crew *work.Crew, t *trial, name string, round int) error {
	p := b.pace(t)
	j := t.job
	j.Library, j.TTL, j.Warm, j.Run = name, cmp.Or(t.ttl, ttl), p.warm, p.run
	j.Key = fmt.Sprintf("%s:%d", t.name, round)
	j.Addrs, j.Far = b.addrs, b.far
	for _, s := range b.servers {
		s.Do("FLUSHALL") // nothing that an earlier round has left behind is in the way, or costs memory
	}
	for _, o := range t.others {
		if o.name == name {
			o.change(&j)
		}
	}
	results, err := crew.Do(ctx, j)
	if err != nil {
		return err
	}
	t.take(b.book, figures.Row{Case: t.name, Library: name}, round, &j, results)
	return nil
}
