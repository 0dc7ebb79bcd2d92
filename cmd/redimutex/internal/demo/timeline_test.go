package demo

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

const ms = time.Millisecond

// twoAtOnce is a timeline in which the workers 1 and 3 clash from 30 to 40 ms.
func twoAtOnce() *timeline {
	t := &timeline{spans: []span{
		{worker: 2, from: 30 * ms, to: 60 * ms},
		{worker: 0, goroutine: 1, from: 10 * ms, to: 40 * ms},
		{worker: 1, from: 60 * ms, to: 70 * ms},
	}}
	t.finish(100 * ms)
	return t
}

// oneKilled is a timeline in which worker 2 is killed at 1 s, and worker 4 has the lock at 1.8 s.
func oneKilled() *timeline {
	t := &timeline{
		spans: []span{
			{worker: 0, from: 100 * ms, to: 200 * ms},
			{worker: 1, from: 800 * ms, to: 1000 * ms},
			{worker: 3, from: 1800 * ms, to: 1900 * ms},
			{worker: 0, from: 1900 * ms, to: 2000 * ms},
		},
		death: &death{worker: 1, at: 1000 * ms},
	}
	t.finish(2000 * ms)
	return t
}

func TestTimelineFindsWhoWasThereAtOnce(t *testing.T) {
	t.Parallel()
	three := &timeline{spans: []span{{from: 0, to: 50}, {worker: 1, from: 10, to: 40}, {worker: 2, from: 20, to: 30}, {worker: 3, from: 60, to: 70}}}
	for _, c := range []struct {
		line     *timeline
		from, to time.Duration
		want     int
	}{
		{twoAtOnce(), 0, 30 * ms, 1},
		{twoAtOnce(), 30 * ms, 40 * ms, 2},
		{twoAtOnce(), 39 * ms, 100 * ms, 2},
		{twoAtOnce(), 40 * ms, 100 * ms, 1},
		{oneKilled(), 0, 2000 * ms, 1}, // turns that touch are no clash
		{three, 0, 100, 3},
		{three, 30, 100, 2},
		{three, 50, 60, 0},
	} {
		assert.Equal(t, c.want, c.line.crowd(c.from, c.to), "%v to %v", c.from, c.to)
	}
}

func TestRecoveryEndsWhenAnotherWorkerHasTheLock(t *testing.T) {
	t.Parallel()
	d := oneKilled().death
	require.True(t, d.over())
	assert.Equal(t, 3, d.successor)
	assert.Equal(t, 800*ms, d.recovery())

	line := &timeline{spans: []span{{worker: 0, from: 1, to: 2}}, death: &death{worker: 1, at: 5}}
	line.finish(10)
	assert.False(t, line.death.over())
}

// rows returns the rows of the workers, and all that is below.
func rows(text string) (workers []string, below string) {
	for line := range strings.Lines(text) {
		if name, row, _ := strings.Cut(line, " ·"); strings.Contains(name, "worker") {
			workers = append(workers, "·"+strings.TrimRight(row, "\n"))
		} else {
			below += line
		}
	}
	return workers, below
}

func TestTextTimelineShowsTurnsWhereTheyWere(t *testing.T) {
	t.Parallel()
	workers, below := rows(twoAtOnce().text(cli.Style{}, 80))
	require.Len(t, workers, workerCount)
	for w, row := range workers {
		assert.Equal(t, textMost, utf8.RuneCountInString(row))
		for column, cell := range []rune(row) {
			at := (float64(column) + 0.5) / textMost * 100
			inside := w == 0 && at > 10 && at < 40 || w == 2 && at > 30 && at < 60 || w == 1 && at > 60 && at < 70
			if edge := int(at) % 10; edge < 2 || edge > 7 {
				continue // partly inside
			}
			assert.Equal(t, inside, cell == '█', "worker %d at %.0f ms", w+1, at)
		}
	}
	assert.Contains(t, below, "at once")
	assert.Contains(t, below, "!")
	assert.Contains(t, below, "0 s")
}

func TestTextTimelineMarksTheKill(t *testing.T) {
	t.Parallel()
	workers, below := rows(oneKilled().text(cli.Style{}, 80))
	require.Len(t, workers, workerCount)
	for w, row := range workers {
		assert.Equal(t, w == 1, strings.Contains(row, "✗"), "worker %d", w+1)
	}
	_, after, _ := strings.Cut(workers[1], "✗")
	assert.Empty(t, strings.TrimSpace(after), "a dead worker does nothing")
	assert.Contains(t, below, "free after 0.80 s")
	assert.NotContains(t, below, "at once")
}

func TestDemoFitsTheTerminal(t *testing.T) {
	t.Parallel()
	early := &timeline{spans: []span{{worker: 0, from: 0, to: 10 * ms}, {worker: 1, from: 900 * ms, to: 990 * ms}}, death: &death{worker: 0, at: 100 * ms}}
	early.finish(1000 * ms)
	late := &timeline{spans: []span{{worker: 0, from: 980 * ms, to: 990 * ms}}, death: &death{worker: 0, at: 990 * ms}}
	late.finish(20 * time.Second)
	for _, line := range []*timeline{twoAtOnce(), oneKilled(), early, late, {}} {
		r := &result{round: round{title: "x", kill: true}, acknowledged: 96, counter: 50, givenUp: 3, timedOut: true, timeline: *line}
		for _, width := range []int{40, 80} {
			for row := range strings.Lines(line.text(cli.Style{}, width) + r.words(width)) {
				assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(row, "\n")), width, row)
			}
		}
	}
}

func TestTextTimelineIsPlainWhereItHasToBe(t *testing.T) {
	t.Parallel()
	for _, line := range []*timeline{twoAtOnce(), oneKilled()} {
		for _, r := range line.text(cli.Style{ASCII: true}, 80) {
			require.True(t, r == '\n' || r >= ' ' && r <= '~', "%q", r)
		}
		assert.NotContains(t, line.text(cli.Style{}, 80), "\x1b")
		assert.Contains(t, line.text(cli.Style{Colour: true}, 80), "\x1b["+cli.Red+"m")
	}
}

func TestAxisHasAFewRoundMarks(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{500 * ms, 1999 * ms, 4 * time.Second, 7 * time.Second, 20 * time.Second} {
		marks := ticks(length)
		assert.GreaterOrEqual(t, len(marks), 3, "%v", length)
		assert.LessOrEqual(t, len(marks), 9, "%v", length)
		assert.LessOrEqual(t, marks[len(marks)-1], length)
	}
}
