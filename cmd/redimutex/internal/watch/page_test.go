package watch

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// text returns rows without colours.
func text(rows []row, width int) (lines []string) {
	for _, r := range rows {
		lines = append(lines, r.paint(width, cli.Style{}))
	}
	return lines
}

func newTestPage(looks ...inspect.View) (*page, time.Time) {
	p := newPast()
	for _, v := range looks {
		p.look(v)
	}
	c := &chronicle{histories: []*history{&p.history}, down: make(map[string]outage)}
	return &page{chronicle: c, screen: newScreen(new(bytes.Buffer), cli.Style{}), title: "every 500ms on server-1"}, p.now
}

func TestBarRunsDownBetweenTheLooks(t *testing.T) {
	t.Parallel()
	p, now := newTestPage(inspect.View{}, holds(tokenA, 10*time.Second))
	bar := func(after time.Duration) string {
		return text(p.rows(now.Add(after), 80, 24), 80)[3]
	}
	assert.Equal(t, "  "+strings.Repeat("█", 40)+" 10.0s left", bar(0))
	assert.Equal(t, "  "+strings.Repeat("█", 20)+strings.Repeat("░", 20)+" 5.0s left", bar(5*time.Second))
	assert.Equal(t, "  "+strings.Repeat("░", 40)+" 0.0s left", bar(time.Minute))
}

func TestPictureShowsTheHolderTheWaitersAndTheLastEvents(t *testing.T) {
	t.Parallel()
	waited := fenced(holds(tokenB, 10*time.Second), 7)
	waited.Waiting = 3
	p, now := newTestPage(inspect.View{}, holds(tokenA, 10*time.Second), waited)
	lines := text(p.rows(now, 80, 24), 80)
	assert.Equal(t, []string{
		"redimutex watch  03:04:06  every 500ms on server-1",
		"",
		"job  held by b, for 0.0s",
		"  ████████████████████████████████████████ 10.0s left",
		"  3 waiting, 2.0 hand-offs/s at least, fence 7",
		"  03:04:06 handed over from a to b, fence 7",
		"  03:04:06 acquired by a",
		"  03:04:05 free",
	}, lines)
	p.down["server-1"] = outage{now.Add(-time.Minute), "connection refused"}
	assert.Equal(t, "server-1: connection refused, for 1m0s", text(p.rows(now, 80, 24), 80)[1])
}

func TestPictureListsTheServersThatDoNotAgree(t *testing.T) {
	t.Parallel()
	p := newPast()
	a := holds(tokenA, 10*time.Second)
	p.look(a, a, a, holds(tokenB, time.Second), inspect.View{Err: servers.ErrSilent})
	lines := text(p.block(p.now, 80, cli.Style{}), 80)
	assert.Equal(t, []string{"  3 of 5 servers agree", "  server-4: held by b", "  server-5: no answer in time"}, lines[3:])
	p.look(inspect.View{}, inspect.View{}, a, inspect.View{}, inspect.View{Err: servers.ErrSilent})
	lines = text(p.block(p.now, 80, cli.Style{}), 80)
	assert.Equal(t, []string{"  3 of 5 servers agree", "  server-3: held by a", "  server-5: no answer in time"}, lines[2:])
}

func TestPictureFitsEveryTerminalAndPlaysNoTricks(t *testing.T) {
	t.Parallel()
	evil := "f47ac10b-58cc-4372-a567-0e02b2c3d479 \x1b[2J\névil \u202e" + strings.Repeat("long ", 50)
	for _, views := range [][]inspect.View{
		{{}}, {holds(evil, 10*time.Second)}, {holds(evil, -1)}, {{Err: servers.ErrSilent}}, {holds(evil, time.Second), holds(evil, 0), {}},
	} {
		p, now := newTestPage(views...)
		p.histories[0].lock.Key = "k\x1b[31m\rey"
		p.histories = append(p.histories, p.histories[0], p.histories[0])
		p.title = strings.Repeat("server ", 30)
		for _, width := range []int{1, 2, 3, 10, 20, 40, 80, 300} {
			for _, height := range []int{1, 2, 3, 10, 24, 100} {
				rows := p.rows(now, width, height)
				if height > 1 {
					assert.LessOrEqual(t, len(rows), height)
				}
				for _, line := range text(rows, width) {
					assert.LessOrEqual(t, utf8.RuneCountInString(line), width)
					assert.Equal(t, cli.Printable(line), line)
				}
				p.screen.draw(rows) // whatever the size, it must not fail
			}
		}
	}
}

func TestColoursAreLeftOutWhereTheyAreNotWanted(t *testing.T) {
	t.Parallel()
	r := row{{"plain ", ""}, {"painted", cli.Red}}
	assert.Equal(t, "plain painted", r.paint(80, cli.Style{Terminal: true}))
	assert.Equal(t, "plain \x1b[31mpainted\x1b[0m", r.paint(80, cli.Style{Terminal: true, Colour: true}))
	assert.Equal(t, "plain \x1b[31mp\x1b[0m...", r.paint(10, cli.Style{Terminal: true, Colour: true}))
}

func TestScreenIsGivenBackAndKeepsTheLastPicture(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	s := newScreen(&b, cli.Style{Terminal: true})
	s.end()
	assert.Empty(t, b.String(), "what was never taken is not given back")
	s.draw([]row{{{"one", ""}}})
	shown := b.String()
	assert.True(t, strings.HasPrefix(shown, screenOn))
	s.draw([]row{{{"one", ""}}})
	assert.Equal(t, shown, b.String(), "the same picture is not written again")
	s.draw([]row{{{"two", ""}}})
	s.end()
	assert.True(t, strings.HasSuffix(b.String(), screenOff+"two\n"), "%q", b.String())
}
