package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

func sorted(rows []evidence.Row) []evidence.Row {
	slices.SortStableFunc(rows, func(a, b evidence.Row) int { return a.ID - b.ID })
	return rows
}

// choose returns the rows that the words of which ask for, or all rows if which is empty. A word is a number, a range of
// numbers, a name, or the beginning of one or more names.
func choose(which string, all []evidence.Row) (chosen []evidence.Row, err error) {
	if strings.TrimSpace(which) == "" {
		return all, nil
	}
	wanted := make(map[int]bool) // by place
	for word := range strings.SplitSeq(which, ",") {
		word = strings.TrimSpace(word)
		exact := slices.ContainsFunc(all, func(r evidence.Row) bool { return r.Name == word })
		found := false
		for i, r := range all {
			if matches(word, r, exact) {
				wanted[i], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("-rows: there is no row %q; go run . -list tells which there are", word)
		}
	}
	for i, r := range all {
		if wanted[i] {
			chosen = append(chosen, r)
		}
	}
	return chosen, nil
}

// matches reports whether a word asks for a row. exact: a row has exactly this name, and then the word asks for no other.
func matches(word string, r evidence.Row, exact bool) bool {
	from, to, isRange := strings.Cut(word, "-")
	first, err := strconv.Atoi(from)
	if err != nil {
		return r.Name == word || !exact && word != "" && strings.HasPrefix(r.Name, word)
	}
	last := first
	if isRange {
		last, _ = strconv.Atoi(to) //nolint:errcheck // no row has the number 0
	}
	return first <= r.ID && r.ID <= last
}

// An outcome is the result of a row, or why there is none.
type outcome struct {
	evidence.Row
	evidence.Result
	err  error // why the row could not be run to its end
	took time.Duration
}

func (o *outcome) held() bool { return o.err == nil && o.OK() }

// skipped reports whether this machine can't run the row, which neither shows nor breaks anything.
func (o *outcome) skipped() bool { return errors.Is(o.err, evidence.ErrSkipped) }

// plan says how long each of the chosen rows may take.
func (o *options) plan() map[string]time.Duration {
	plan := make(map[string]time.Duration)
	var total time.Duration
	for _, r := range o.chosen {
		plan[r.Name] = r.Short
		if o.long {
			plan[r.Name] = r.Long
		}
		total += plan[r.Name]
	}
	if o.time > 0 && total > 0 {
		for name, d := range plan {
			plan[name] = time.Duration(float64(d) / float64(total) * float64(o.time))
		}
	}
	return plan
}

// A row is given up when it takes this much longer than planned. On a busy machine all rows take longer.
const (
	patience  = 4
	allowance = 2 * time.Minute
	dying     = 20 * time.Second // the time that a row has to clean up when it is given up
)

// runRow runs one row. If something goes wrong with it, even a panic, that is its outcome.
func (o *options) runRow(ctx context.Context, row evidence.Row, p *meter) outcome {
	planned := o.plan()[row.Name]
	limit := allowance + patience*planned
	if o.long {
		limit = allowance + patience*max(planned, row.Long) // all repetitions are wanted, whatever -time says
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not through after %v", limit.Round(time.Second)))
	defer cancel()
	began := time.Now()
	results := make(chan outcome, 1)
	go func() {
		results <- o.attempt(ctx, row, evidence.Setup{
			Seed: o.seed, Time: planned, Long: o.long, Dir: filepath.Join(o.dir, row.Name), Report: p.report,
		})
	}()
	var out outcome
	select {
	case out = <-results:
	case <-ctx.Done():
		select {
		case out = <-results:
		case <-time.After(dying):
			out = outcome{Row: row}
		}
		if out.err == nil && !out.OK() {
			out.err = context.Cause(ctx)
		}
	}
	if out.err != nil && !out.skipped() {
		out.err = fmt.Errorf("%w; again with: go run . -rows %s -seed %d", out.err, row.Name, o.seed)
	}
	out.took = time.Since(began)
	return out
}

// attempt makes the folder of a row and runs it.
func (o *options) attempt(ctx context.Context, row evidence.Row, s evidence.Setup) (out outcome) {
	out.Row = row
	defer func() {
		if r := recover(); r != nil {
			out.err = fmt.Errorf("it panicked: %v\n%s", r, debug.Stack())
		}
	}()
	if out.err = os.MkdirAll(s.Dir, 0o755); out.err != nil {
		return out
	}
	out.Result, out.err = row.Run(ctx, s)
	// An empty folder is not worth keeping.
	if len(out.Files) == 0 {
		_ = os.Remove(s.Dir)
	}
	return out
}
