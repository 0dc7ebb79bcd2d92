package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// row returns a row that calls play.
func row(id int, name string, play func(ctx context.Context, s evidence.Setup) (evidence.Result, error)) evidence.Row {
	return evidence.Row{ID: id, Name: name, Fault: name + " fails", Must: "it holds", Short: time.Second, Long: 10 * time.Second, Run: play}
}

func holding(context.Context, evidence.Setup) (evidence.Result, error) {
	return evidence.Result{Figures: []evidence.Figure{
		{Library: evidence.Ours, Held: 12345, Tried: 12345, Worst: "p99 3 ms"},
		{Library: "redsync", Held: 1, Tried: 2, NotJudged: true},
	}}, nil
}

func breaking(context.Context, evidence.Setup) (evidence.Result, error) {
	return evidence.Result{Figures: []evidence.Figure{{Library: evidence.Ours, Held: 1, Tried: 2}}, Notes: []string{"The bad one was late."}}, nil
}

// faults runs the command and returns what it printed and its status.
func faults(t *testing.T, all []evidence.Row, args ...string) (out string, status int) {
	t.Helper()
	var stdout, stderr strings.Builder
	status = command(t.Context(), append(args, "-out", t.TempDir()), all, &stdout, &stderr)
	return stdout.String() + stderr.String(), status
}

func TestStatusIs1IfAnythingThatMustHoldDoesNot(t *testing.T) {
	good := row(1, "good", holding)
	for name, bad := range map[string]evidence.Row{
		"broken":  row(2, "bad", breaking),
		"nothing": row(2, "bad", func(context.Context, evidence.Setup) (evidence.Result, error) { return evidence.Result{}, nil }),
		"error": row(2, "bad", func(context.Context, evidence.Setup) (evidence.Result, error) {
			return evidence.Result{}, errors.New("no server")
		}),
		"panic": row(2, "bad", func(context.Context, evidence.Setup) (evidence.Result, error) { panic("oh") }),
	} {
		t.Run(name, func(t *testing.T) {
			out, status := faults(t, []evidence.Row{good, bad}, "-seed", "7")
			assert.Equal(t, statusBroken, status, out)
			assert.Contains(t, out, "1 of 2 rows held")
			assert.Contains(t, out, "go run . -seed 7")
		})
	}
	out, _ := faults(t, []evidence.Row{row(2, "bad", breaking)})
	assert.Contains(t, out, "The bad one was late.", "why it is broken")
	out, status := faults(t, []evidence.Row{good})
	assert.Equal(t, statusHeld, status, out)
	assert.Contains(t, out, "redimutex: 12,345 of 12,345, p99 3 ms")
}

func TestRowThatThisMachineCannotRunIsNoFailure(t *testing.T) {
	out, status := faults(t, []evidence.Row{row(1, "good", holding), row(2, "other", func(context.Context, evidence.Setup) (evidence.Result, error) {
		return evidence.Result{}, fmt.Errorf("%w: there is no redis-sentinel", evidence.ErrSkipped)
	})})
	assert.Equal(t, statusHeld, status, out)
	assert.Contains(t, out, "skipped")
	assert.Contains(t, out, "there is no redis-sentinel")
}

func TestRowsAreChosenByNumberRangeNameAndBeginning(t *testing.T) {
	var all []evidence.Row
	for i, name := range []string{"sim-drift", "sim-guard", "paused", "pause"} {
		all = append(all, row(i+1, name, holding))
	}
	for which, want := range map[string]string{
		"": "1234", "2": "2", "1,3": "13", "2-4": "234", "sim": "12", "paused": "3", "pause": "4", "sim-g, 4": "24",
	} {
		chosen, err := choose(which, all)
		require.NoError(t, err, which)
		got := ""
		for _, r := range chosen {
			got += fmt.Sprint(r.ID)
		}
		assert.Equal(t, want, got, which)
	}
}

func TestWrongUsageIsToldWithStatus2(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte("no markers"), 0o600))
	for _, args := range [][]string{
		{"-rows", "9"}, {"-rows", "4-2"}, {"-rows", "1,,2"}, {"-rows", "x"}, {"more"}, {"-time", "-1s"}, {"-time", "soon"}, {"-doc", page}, {"-doc", page + "x"}, {"-report", page},
	} {
		var stdout, stderr strings.Builder
		assert.Equal(t, statusUsage, command(t.Context(), args, []evidence.Row{row(1, "good", holding)}, &stdout, &stderr), args)
		assert.NotEmpty(t, stderr.String())
	}
}

func TestTimeIsSharedOutAndTheSeedPassedOn(t *testing.T) {
	var got []evidence.Setup
	note := func(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
		got = append(got, s)
		return holding(ctx, s)
	}
	long := row(2, "long", note)
	long.Long = 30 * time.Second
	_, status := faults(t, []evidence.Row{row(1, "short", note), long}, "-long", "-time", "80s", "-seed", "5")
	require.Equal(t, statusHeld, status)
	require.Len(t, got, 2)
	assert.Equal(t, 20*time.Second, got[0].Time)
	assert.Equal(t, 60*time.Second, got[1].Time)
	for _, s := range got {
		assert.Equal(t, uint64(5), s.Seed)
		assert.True(t, s.Long)
	}
}

func TestPagesGetTheirTables(t *testing.T) {
	var pages []string
	for _, name := range []string{"../docs/evidence.md", "report.md"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		pages = append(pages, filepath.Join(t.TempDir(), "page.md"))
		require.NoError(t, os.WriteFile(pages[len(pages)-1], text, 0o600))
	}
	out, status := faults(t, []evidence.Row{row(1, "good", holding)}, "-doc", pages[0], "-report", pages[1])
	require.Equal(t, statusHeld, status, out)
	for i, line := range []string{
		"| 1 | good fails | it holds | 12,345 of 12,345 | redsync: 1 of 2 |",
		"| 1 | good fails | it holds | 12,345 of 12,345, p99 3 ms | redsync: 1 of 2 | held |",
	} {
		text, err := os.ReadFile(pages[i])
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(text), line), string(text))
		assert.NotContains(t, string(text), "| 29 |", "of the run before")
	}
}

func TestShortTableAddsUpWhatALibraryDidInARow(t *testing.T) {
	played := outcome{Row: row(3, "several", nil), Result: evidence.Result{Figures: []evidence.Figure{
		{Library: "redimutex, 1 server", Held: 1000, Tried: 1000, Worst: "p99 3 ms"},
		{Library: "redimutex", Held: 5, Tried: 5},
		{Library: "redimutex without", Held: 7, Tried: 8, NotJudged: true},
		{Library: "redimutex, 3 servers", Held: 6, Tried: 6, NotJudged: true},
		{Library: "redsync with FailFast", Held: 1, Tried: 2, NotJudged: true},
		{Library: "redsync, 5 servers", Held: 0, Tried: 3, NotJudged: true},
	}}}
	broken := outcome{Row: row(4, "one", nil), Result: evidence.Result{Figures: []evidence.Figure{
		{Library: "redimutex, a", Held: 1, Tried: 1}, {Library: "redimutex, b", Held: 1, Tried: 2},
	}}}
	text := (&report{options: &options{}, outcomes: []outcome{played, broken}}).short()
	assert.Contains(t, text, "| 3 | several fails | it holds | 1,005 of 1,005 | "+
		"redimutex without: 7 of 8<br>redimutex, 3 servers: 6 of 6<br>redsync: 1 of 5 |\n")
	assert.Contains(t, text, "| 4 | one fails | it holds | BROKEN: 2 of 3 |  |\n")
}

// Every row of the table has one name, by which it can be called.
func TestRowsHaveNamesOfTheirOwn(t *testing.T) {
	names := make(map[string]bool)
	for _, r := range rows() {
		assert.False(t, names[r.Name], r.Name)
		names[r.Name] = true
		assert.NotEmpty(t, r.Fault)
		assert.NotEmpty(t, r.Must)
		assert.Positive(t, r.Short)
		assert.Greater(t, r.Long, r.Short)
	}
}
