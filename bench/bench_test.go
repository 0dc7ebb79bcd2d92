package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/bench/internal/figures"
	"github.com/redimutex/redimutex/bench/internal/work"
	"github.com/redimutex/redimutex/internal/lab/page"
	"github.com/redimutex/redimutex/internal/redistest"
)

// TestMain runs the tests, or one worker process of the benchmark.
func TestMain(m *testing.M) {
	work.Main()
	os.Exit(m.Run())
}

func needServer(t *testing.T) {
	if !redistest.Installed() {
		t.Skip("needs a redis-server or valkey-server on the PATH")
	}
}

// small is every case on a scale that a test can afford: few goroutines and processes.
func small() []trial {
	all := append([]trial{}, trials...)
	for i := range all {
		t := &all[i]
		t.workers = min(t.workers, near+1)
		t.job.Goroutines = min(t.job.Goroutines, 20)
	}
	return all
}

// shortly is one round, or three, so that something gets done on a machine that stands still at times too.
func shortly(t *trial) pace {
	if t.job.Hold > hold || t.job.Think > 0 {
		return pace{1, 100 * time.Millisecond, 700 * time.Millisecond}
	}
	return pace{3, 50 * time.Millisecond, 100 * time.Millisecond}
}

// copied returns a copy of a page without what a run has put into it.
func copied(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), filepath.Base(name))
	require.NoError(t, os.WriteFile(path, text, 0o600))
	require.NoError(t, page.Fill(path, ""))
	return path
}

// The sizes of the figures are not looked at: they are the machine's. That there are some, for every
// library in every case, is what keeps the benchmark from saying nothing.
func TestEveryCaseYieldsFiguresForEveryLibrary(t *testing.T) {
	needServer(t)
	dir := t.TempDir()
	var out, progress bytes.Buffer
	all := small()
	doc, full := copied(t, "../docs/benchmark.md"), copied(t, "report.md")
	require.NoError(t, compare(context.Background(), all, shortly, dir, pages{doc, full}, &out, &progress), "%s", &out)

	report := out.String()
	for _, trial := range all {
		assert.Contains(t, report, trial.name+": "+trial.title)
		for _, name := range trial.entrants() {
			assert.Contains(t, report, "| "+name+" ")
		}
	}
	assert.Contains(t, report, "cores")
	assert.Contains(t, report, "redsync v4")
	assert.NotContains(t, report, "not run")
	assert.Contains(t, progress.String(), "It took")
	text, err := os.ReadFile(full)
	require.NoError(t, err)
	assert.Contains(t, string(text), report[:strings.Index(report, "\nIn "+dir)], "the page with the whole report")
	text, err = os.ReadFile(doc)
	require.NoError(t, err)
	for _, name := range []string{"cores", "redsync v4", "rate / bare redigo", "| redimutex queue ", "| rueidislock "} {
		assert.Contains(t, string(text), name, "the page with the medians")
	}
	for _, name := range []string{
		"report.md", "figures.csv", "goals.csv", "waits.csv", "holds.csv",
		"waits.svg", "waits.png", "throughput.svg", "throughput.png", "requests.svg", "requests.png", "timeline.svg", "timeline.png",
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if assert.NoError(t, err) {
			assert.Greater(t, info.Size(), int64(100), name)
		}
	}
	// What a limit counts is what those that are held against it count.
	for row, want := range map[figures.Row]float64{
		{Case: "own1", Library: entrants.RedimutexCtx}:        2,
		{Case: "own1", Library: entrants.RedimutexDo}:         2,
		{Case: "own64", Library: pipeline}:                    2,
		{Case: "nohold", Library: toAndFro}:                   1,
		{Case: "redlock", Library: entrants.RedimutexRedlock}: 10,
		{Case: "redlock1ms", Library: entrants.RedimutexCtx}:  2,
	} {
		assert.InDelta(t, want, requests(t, dir, row), want/4, "%v", row)
	}
	goals, err := os.ReadFile(filepath.Join(dir, "goals.csv"))
	require.NoError(t, err)
	assert.NotContains(t, string(goals), "not run")
}

// requests returns what figures.csv says of the requests a hold.
func requests(t *testing.T, dir string, row figures.Row) float64 {
	f, err := os.Open(filepath.Join(dir, "figures.csv"))
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	for _, l := range lines {
		if l[0] == row.Case && l[1] == row.Library && l[2] == string(figures.Requests) {
			v, err := strconv.ParseFloat(l[4], 64)
			require.NoError(t, err)
			return v
		}
	}
	return 0
}
