package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/internal/machine"
	"github.com/redimutex/redimutex/internal/redistest"
)

// describe says in a few lines on what machine, and with what versions, the figures were taken.
func describe(s *redistest.Server) []string {
	return []string{
		"Machine: " + machine.Describe(),
		"Versions: " + machine.Go() + "; " + product(s) + " on the same machine, loopback, no persistence",
		"Libraries: " + machine.Libraries("github.com/gomodule/redigo", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock",
			"github.com/redis/go-redis/v9", "github.com/redis/rueidis"),
	}
}

func product(s *redistest.Server) string {
	info := make(map[string]string)
	for line := range strings.Lines(fmt.Sprintf("%s", s.Do("INFO", "server"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	if v := info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + info["redis_version"]
}

// report prints the tables, and writes them and every figure to the folder. With -fill it also fills the pages.
func (b *bench) report(o *options, about []string, out io.Writer) error {
	var text bytes.Buffer
	for _, line := range about {
		fmt.Fprintln(&text, line)
	}
	fmt.Fprintf(&text, "\nFigures are medians of the rounds (least–most). The goals:\n\n%s", b.goals(o.chosen))
	for i := range o.chosen {
		t := &o.chosen[i]
		fmt.Fprintf(&text, "\n%s: %s\n\n%s", t.name, t.title, b.table(t))
	}
	fmt.Fprintf(&text, "\nThe rows, with the settings that each library's own documentation has for one server:\n\n%s", settings())
	if trouble := b.versions[0].book.Trouble; len(trouble) > 0 {
		fmt.Fprintf(&text, "\nTrouble:\n\n- %s\n", strings.Join(trouble, "\n- "))
	}
	if _, err := out.Write(text.Bytes()); err != nil {
		return err
	}
	errs := []error{os.WriteFile(filepath.Join(o.dir, "report.md"), text.Bytes(), 0o644)}
	var rows []figures.Row
	for _, t := range o.chosen {
		for _, library := range t.who {
			rows = append(rows, figures.Row{Case: t.name, Library: library})
		}
	}
	for _, v := range b.versions {
		f, err := os.Create(filepath.Join(o.dir, strings.TrimPrefix(v.name+"-figures.csv", "-")))
		if err != nil {
			return err
		}
		errs = append(errs, v.book.WriteCSV(f, rows), f.Close())
	}
	errs = append(errs, b.draw(filepath.Join(o.dir, pictureName)))
	if o.fill != "" {
		errs = append(errs, b.fill(o, about, text.String()))
	}
	return errors.Join(errs...)
}

// goals returns a table of the goals for which something was measured, with a column for each version.
func (b *bench) goals(chosen []trial) string {
	head := []string{"case", "row", "figure"}
	for _, v := range slices.Backward(b.versions) {
		head = append(head, strings.TrimSpace("measured "+v.name))
	}
	rows := [][]string{append(head, "goal")}
	for _, t := range chosen {
		title, ours := t.title, ""
		for _, g := range t.goals {
			last := b.versions[0].book.Judge(t.name, g)
			if last.Rounds == 0 {
				continue
			}
			row := []string{title, g.Ours, g.What()}
			if g.Ours == ours {
				row[1] = ""
			}
			title, ours = "", g.Ours
			for _, v := range slices.Backward(b.versions) {
				row = append(row, spread(v.book.Judge(t.name, g)))
			}
			wanted := g.Wanted()
			if !g.Met(last) {
				wanted += ", missed"
			}
			rows = append(rows, append(row, wanted))
		}
	}
	return layOut(rows)
}

// table returns a table with a line for each library of a case. In a comparison a row of redimutex has two more lines: the
// version before, and the change of the figures.
func (b *bench) table(t *trial) string {
	head := []string{""}
	for _, m := range t.shown {
		head = append(head, string(m))
	}
	rows := [][]string{head}
	after := &b.versions[0].book
	for _, library := range entrants.All {
		r := figures.Row{Case: t.name, Library: library.Name}
		if !after.Measured(r) {
			continue
		}
		line := func(name string, of func(figures.Metric) figures.Summary) {
			row := []string{name}
			for _, m := range t.shown {
				row = append(row, spread(of(m)))
			}
			rows = append(rows, row)
		}
		line(library.Name, func(m figures.Metric) figures.Summary { return after.Of(r, m) })
		if before := &b.versions[len(b.versions)-1].book; before != after && library.Ours() && before.Measured(r) {
			line("before", func(m figures.Metric) figures.Summary { return before.Of(r, m) })
			line("after / before", func(m figures.Metric) figures.Summary { return before.Change(after, r, m) })
		}
	}
	return layOut(rows)
}

// settings returns a table that says what each row does.
func settings() string {
	rows := [][]string{{"row", "what it does"}}
	for _, l := range entrants.All {
		rows = append(rows, []string{l.Name, l.Settings})
	}
	return layOut(rows)
}
