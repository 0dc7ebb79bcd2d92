package main

import (
	"fmt"
	"time"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/bench/internal/plots"
)

// look is the order of the colours: of those that meet in a picture no two are alike.
var look = plots.Order{
	Names: []string{
		entrants.RedimutexQueue, entrants.Redsync, entrants.Rueidislock, entrants.Redislock, entrants.RedsyncEager, entrants.Bare, entrants.Redimutex, entrants.RedimutexBoth,
	},
	Ours: entrants.Redimutex,
}

// draw draws what there are figures for, and returns the names of the files.
func draw(b *figures.Book, dir string) (names []string, err error) {
	pictures := []struct {
		name string
		draw func(*figures.Book, string, string) (bool, error)
	}{
		{"waits", drawWaits},
		{"throughput", drawAgainst(figures.Rate, "Holds a second, of one key without hold", "holds a second")},
		{"requests", drawAgainst(figures.Requests, "Requests a hold, of one key without hold", "requests a hold")},
		{"timeline", drawTimeline},
	}
	for _, p := range pictures {
		drawn, err := p.draw(b, dir, p.name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if drawn {
			names = append(names, p.name+".svg", p.name+".png")
		}
	}
	return names, nil
}

// drawWaits draws how long how many of the waits took.
func drawWaits(b *figures.Book, dir, name string) (bool, error) {
	const at = "hold5"
	ideal := ms(workers * each * hold)
	c := plots.Chart{
		Title: "4 processes x 8 goroutines, one key, 5 ms hold: how long they wait", X: "wait, ms", Y: "share of the waits that took no longer",
		LinearY: true, Marks: []plots.Mark{{X: ideal, Word: fmt.Sprintf("32 holds, %g ms", ideal)}},
	}
	for _, library := range b.Libraries(at, look.Names) {
		line := plots.Line{Name: library, Steps: true}
		b.Waits[figures.Row{Case: at, Library: library}].Shares(func(d time.Duration, share float64) {
			line.X, line.Y = append(line.X, max(ms(d), 0.01)), append(line.Y, share)
		})
		c.Lines = append(c.Lines, line)
	}
	return len(c.Lines) > 0, drawIf(c, dir, name)
}

func drawIf(c plots.Chart, dir, name string) error {
	if len(c.Lines) == 0 {
		return nil
	}
	return c.Draw(dir, name, look)
}

// drawAgainst draws a metric against the number of processes.
func drawAgainst(m figures.Metric, title, unit string) func(*figures.Book, string, string) (bool, error) {
	return func(b *figures.Book, dir, name string) (bool, error) {
		c := plots.Chart{Title: title, X: "processes that contend", Y: unit}
		lines := make(map[string]*plots.Line)
		for _, n := range crowds {
			c.XTicks = append(c.XTicks, float64(n))
			for _, library := range b.Libraries(procs(n), look.Names) {
				s := b.Of(figures.Row{Case: procs(n), Library: library}, m)
				if s.Rounds == 0 || s.Least <= 0 { // which a logarithm can't show
					continue
				}
				l := lines[library]
				if l == nil {
					l = &plots.Line{Name: library}
					lines[library] = l
				}
				l.X, l.Y = append(l.X, float64(n)), append(l.Y, s.Median)
				l.Low, l.High = append(l.Low, s.Least), append(l.High, s.Most)
			}
		}
		for _, library := range look.Names {
			if l := lines[library]; l != nil {
				c.Lines = append(c.Lines, *l)
			}
		}
		return len(c.Lines) > 0, drawIf(c, dir, name)
	}
}

// drawTimeline draws one second of the last round, of those that differ most.
func drawTimeline(b *figures.Book, dir, name string) (bool, error) {
	const at = "hold5"
	t := plots.Timeline{
		Title: "Who held the lock when: 4 processes x 8 goroutines, one key, 5 ms hold",
		Rows:  workers * each, Group: each, Length: 1000,
	}
	for _, library := range []string{entrants.RedimutexQueue, entrants.Rueidislock, entrants.Redislock, entrants.Redsync} {
		spans := b.Spans[figures.Row{Case: at, Library: library}]
		if len(spans) == 0 {
			continue
		}
		p := plots.Panel{Name: library}
		zero := spans[0].Got
		for _, s := range spans {
			p.Bars = append(p.Bars, plots.Bar{Row: s.Goroutine, From: ms(time.Duration(s.Got - zero)), To: ms(time.Duration(s.Released - zero))})
		}
		t.Panels = append(t.Panels, p)
	}
	if len(t.Panels) == 0 {
		return false, nil
	}
	return true, t.Draw(dir, name, look)
}
