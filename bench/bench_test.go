package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
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

// small returns every case on a scale that a test can afford: few goroutines and processes, and two short rounds. In a single
// round nothing might get done, because the machine may stand still for a moment.
func small() []trial {
	all := append([]trial{}, trials...)
	for i := range all {
		t := &all[i]
		t.workers = min(t.workers, 4)
		t.job.Goroutines = min(t.job.Goroutines, 20)
		t.rounds, t.warm, t.run = 2, 50*ms, 100*ms
		if t.job.Hold+t.job.Think > 10*ms {
			t.run = 700 * ms
		}
	}
	return all
}

// root returns a folder with copies of the pages that a run fills. The parts that a run fills are empty.
func root(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	copies := pages(dir)
	for i, name := range pages("..") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(copies[i]), 0o755))
		require.NoError(t, os.WriteFile(copies[i], text, 0o600))
		require.NoError(t, page.Fill(copies[i], ""))
	}
	return dir
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// The test does not check the values of the figures, because they depend on the machine. It checks that there are figures for
// every library in every case, and for every goal.
func TestEveryCaseYieldsFiguresForEveryLibraryAndGoal(t *testing.T) {
	redistest.Needs(t, redistest.Tracking) // rueidislock needs it
	o := &options{chosen: small(), dir: t.TempDir(), fill: root(t)}
	var out, progress bytes.Buffer
	require.NoError(t, compare(context.Background(), o, &out, &progress), "%s", &out)

	report := out.String()
	goals, tables, found := strings.Cut(report, "\n\nown1: ")
	require.True(t, found)
	var judged int
	for _, trial := range o.chosen {
		judged += len(trial.goals)
		_, table, found := strings.Cut("\n\nown1: "+tables, "\n\n"+trial.name+": "+trial.title+"\n")
		assert.True(t, found, trial.name)
		table, _, _ = strings.Cut(table, "\n\n\n")
		for _, who := range trial.who {
			assert.Contains(t, table, "| "+who+" ", trial.name)
		}
	}
	const head = 2
	assert.Equal(t, judged+head, strings.Count(goals, "\n|"), "a line for each goal: %s", goals)
	for _, words := range []string{"cores", "redsync v4"} {
		assert.Contains(t, report, words)
	}
	assert.Contains(t, progress.String(), "It took")

	filled := pages(o.fill)
	assert.Contains(t, read(t, filled[0]), "| "+entrants.Rueidislock+" ", "the page with the medians")
	assert.Contains(t, read(t, filled[1]), report, "the page with the whole report")
	assert.Regexp(t, `One goroutine: [\d,]+ locks a second`, read(t, filled[2]), "the front page")
	assert.Contains(t, read(t, filepath.Join(o.fill, "docs", "benchmark-timeline.svg")), entrants.Redislock)
	assert.Contains(t, read(t, filepath.Join(o.dir, "figures.csv")), "redlock,redimutex Redlock,holds/s,1,")
}

// The requests of a limit are counted like those of the libraries that are compared with it.
func TestLibrariesSendWhatTheyAreSaidToSend(t *testing.T) {
	redistest.Needs(t, redistest.Tracking) // rueidislock needs it
	want := map[string]map[string]float64{
		"own1":     {entrants.Redimutex: 2, entrants.Do: 2, entrants.Lock: 2, entrants.Bare: 2},
		"all5":     {entrants.All5: 2, entrants.Bare5: 10},
		"redlock":  {entrants.Redlock: 10, entrants.Pipelines: 10, entrants.Redimutex: 2},
		"handover": {entrants.Ping: 1},
	}
	o := &options{dir: t.TempDir()}
	for _, trial := range small() {
		if want[trial.name] != nil {
			trial.shown = []figures.Metric{figures.Requests}
			o.chosen = append(o.chosen, trial)
		}
	}
	b := runs(t, o)
	for name, libraries := range want {
		for library, requests := range libraries {
			measured := b.versions[0].book.Of(figures.Row{Case: name, Library: library}, figures.Requests).Median
			assert.InDelta(t, requests, measured, requests/4, "%s, %s", name, library)
		}
	}
}

// runs runs trials without a report.
func runs(t *testing.T, o *options) *bench {
	t.Helper()
	versions, err := makeVersions(t.Context(), o.before, t.TempDir())
	require.NoError(t, err)
	var progress bytes.Buffer
	b := &bench{t: t, servers: []*redistest.Server{redistest.Real(t)}, versions: versions, out: &progress, spans: map[string][]work.Span{}}
	require.NoError(t, b.run(t.Context(), o.chosen))
	assert.Empty(t, versions[0].book.Trouble)
	return b
}

// A comparison of the last commit with the working tree builds both versions. Only redimutex has figures for both.
func TestTwoVersionsTakeTurns(t *testing.T) {
	needServer(t)
	if _, err := command(t.Context(), nil, "git", "-C", "..", "rev-parse", "HEAD"); err != nil {
		t.Skip("needs a git repository: ", err)
	}
	chosen, err := choose("pool", true)
	require.NoError(t, err)
	trial := &chosen[0]
	trial.rounds, trial.warm, trial.run = 1, 20*ms, 100*ms
	b := runs(t, &options{before: "HEAD", chosen: chosen[:1]})
	for _, v := range b.versions {
		for _, library := range trial.who {
			assert.True(t, v.book.Measured(figures.Row{Case: trial.name, Library: library}), "%s %s", v.name, library)
		}
	}
	table := b.table(trial)
	assert.Contains(t, table, "| after / before ")
	assert.Equal(t, 1, strings.Count(table, "| before "), "redsync has no version before: %s", table)
	assert.Contains(t, b.goals(chosen[:1]), "measured before")
}

func TestCasesAreChosenByNameOrByTheirBeginning(t *testing.T) {
	names := func(choice string, paired bool) (all []string) {
		chosen, err := choose(choice, paired)
		require.NoError(t, err)
		for _, c := range chosen {
			all = append(all, c.name)
		}
		return all
	}
	assert.Equal(t, caseNames(), names("", false))
	assert.Equal(t, []string{"pool"}, names("pool", false), "not poolbusy")
	assert.Equal(t, []string{"procs16", "procs64"}, names("procs", false))
	assert.Equal(t, []string{"own1", "handover"}, names("handover, own1", false))
	assert.NotContains(t, names("", true), "procs16")
	_, err := choose("nonsense", false)
	assert.ErrorContains(t, err, "own64")
}

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{
		1234567.8: "1,234,568", 999.4: "999", 1000: "1,000", 12.34: "12.3", 1.234: "1.23", 0.1234: "0.12", 3: "3", -1: "-1", 0: "0",
	} {
		assert.Equal(t, want, number(v))
	}
}

func TestAHandOverIsToAProcessThatWaits(t *testing.T) {
	at := func(who int, asked, got, released int64) work.Span {
		return work.Span{Goroutine: who, Asked: asked * int64(time.Millisecond), Got: got * int64(time.Millisecond), Released: released * int64(time.Millisecond)}
	}
	h := handovers([]work.Span{at(0, 0, 1, 10), at(1, 2, 12, 20), at(1, 25, 26, 30), at(0, 40, 41, 50)})
	assert.EqualValues(t, 1, h.Count(), "not where none waits")
	assert.InDelta(t, 2, quantile(h, .5), .05)
}
