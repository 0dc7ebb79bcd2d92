// Package versions tries every feature of the library on every server that is at hand, and tells what each
// server can't do.
package versions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{{
		ID: 25, Name: "servers",
		Fault: "every feature, on each server that " + redistest.Variable + " names",
		Must:  "works, or the server can't and it is said why",
		Short: 10 * time.Second, Long: 60 * time.Second,
		Run: run,
	}}
}

// lacking is why a server can't do something.
type lacking string

func (l lacking) Error() string { return string(l) }

const (
	repetitions = 10 // of the long version
	atOnce      = 4  // features that are tried, each on servers of its own
)

func run(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
	builds, all := redistest.Builds(), features()
	if len(builds) == 0 {
		return evidence.Result{}, fmt.Errorf("%w: there is no redis-server or valkey-server on the PATH", evidence.ErrSkipped)
	}
	rounds := 1
	if s.Long {
		rounds = repetitions
	}
	var r evidence.Result
	for i, b := range builds {
		outcomes := make([]outcome, len(all))
		var done atomic.Int64
		var each sync.WaitGroup
		room := make(chan struct{}, atOnce)
		for j, f := range all {
			room <- struct{}{}
			each.Go(func() {
				outcomes[j] = f.repeat(ctx, b, rounds)
				if n := int(done.Add(1)); s.Report != nil {
					s.Report(i*len(all)+n, len(builds)*len(all))
				}
				<-room
			})
		}
		each.Wait()
		r.Figures = append(r.Figures, figure(b, outcomes))
		for _, o := range outcomes {
			r.Notes = append(r.Notes, o.notes...)
		}
	}
	return r, nil
}

// An outcome is what became of a feature on a server.
type outcome struct {
	name         string
	held, tried  int
	lacks, wrong bool
	notes        []string
}

func (f *feature) repeat(ctx context.Context, b redistest.Build, rounds int) outcome {
	o := outcome{name: f.name}
	for range rounds {
		err := f.try(ctx, b)
		if reason := lacking(""); errors.As(err, &reason) {
			o.lacks = true
			o.notes = append(o.notes, fmt.Sprintf("%s: %s.", f.name, reason))
			return o
		}
		o.tried++
		if err == nil {
			o.held++
			continue
		}
		o.wrong = true
		o.notes = append(o.notes, fmt.Sprintf("%v, %s: %v.", b, f.name, err))
	}
	return o
}

func figure(b redistest.Build, outcomes []outcome) evidence.Figure {
	f := evidence.Figure{Library: fmt.Sprintf("%s, %v", evidence.Ours, b)}
	var lacks, wrong []string
	for _, o := range outcomes {
		f.Held, f.Tried = f.Held+o.held, f.Tried+o.tried
		if o.lacks {
			lacks = append(lacks, o.name)
		}
		if o.wrong {
			wrong = append(wrong, o.name)
		}
	}
	f.Worst = fmt.Sprintf("%d of %d features", len(outcomes)-len(lacks), len(outcomes))
	if len(lacks) > 0 {
		f.Worst += "; it has no " + strings.Join(lacks, ", ")
	}
	if len(wrong) > 0 {
		f.Worst += "; wrong: " + strings.Join(wrong, ", ")
	}
	return f
}

// A feature is what the library can do, and how to see that it does on a server.
type feature struct {
	name  string
	needs redistest.Feature
	use   func(t testing.TB, b redistest.Build) error
}

// try uses the feature on servers of its own.
func (f *feature) try(ctx context.Context, b redistest.Build) (err error) {
	if !b.Has(f.needs) {
		return lacking(b.Lacks(f.needs))
	}
	broken := evidence.Stage(ctx, func(t testing.TB) { err = f.use(t, b) })
	if broken != nil {
		return broken
	}
	return err
}
