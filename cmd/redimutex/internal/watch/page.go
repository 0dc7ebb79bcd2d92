package watch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
)

// A page is the picture that a watch shows at a terminal, and the keys that the user types there.
type page struct {
	*chronicle
	screen *screen
	keys   *keys
	title  string
}

// frameTime is the time between two pictures. A picture need not ask the servers.
const frameTime = 100 * time.Millisecond

func newPage(t *cli.Terminal, o *options, c *chronicle, style cli.Style) *page {
	title := fmt.Sprintf("every %v on %s", o.interval, o.nodes.Names())
	return &page{chronicle: c, screen: newScreen(t.Out, style), keys: listen(t.In), title: title}
}

// suspend restores the terminal and stops this process, until the shell continues it.
func (p *page) suspend() {
	p.keys.release()
	p.screen.leave()
	stopUs()
	p.keys.take()
}

// end restores the terminal.
func (p *page) end() {
	p.keys.release()
	p.screen.end()
}

func (p *page) survey(s *survey) {
	p.take(s)
	p.frame(s.at)
}

func (p *page) frame(now time.Time) {
	if len(p.histories) > 0 && p.histories[0].lock != nil { // there is something to show
		width, height := p.screen.size()
		p.screen.draw(p.rows(now, width, height))
	}
}

// A piece is a part of a row in one colour.
type piece struct{ text, colour string }

type row []piece

// rows returns the picture for a terminal of that size.
func (p *page) rows(now time.Time, width, height int) []row {
	rows := []row{{{"redimutex watch", cli.Strong}, {"  " + now.Format(time.TimeOnly) + "  " + p.title, cli.Dim}}}
	for _, name := range slices.Sorted(maps.Keys(p.down)) {
		o := p.down[name]
		rows = append(rows, row{{fmt.Sprintf("%s: %s, for %v", name, o.reason, inTenths(now.Sub(o.since))), cli.Red}})
	}
	var blocks [][]row
	used := len(rows)
	for _, h := range p.histories {
		b := h.block(now, width, p.screen.style)
		blocks = append(blocks, b)
		used += 1 + len(b)
	}
	events := min(max((height-used)/max(len(blocks), 1), 0), keptEvents)
	for i, b := range blocks {
		rows = append(append(rows, row{}), b...)
		h := p.histories[i]
		for k := len(h.events) - 1; k >= max(len(h.events)-events, 0); k-- { // the newest on top
			e := h.events[k]
			rows = append(rows, row{{"  " + e.at.Format(time.TimeOnly) + " " + e.text, cli.Dim}})
		}
	}
	if len(rows) > height && height > 1 {
		rows = append(rows[:height-1], row{{"there is more than fits; make the window higher", cli.Red}})
	}
	return rows
}

// block shows one lock, without its events.
func (h *history) block(now time.Time, width int, st cli.Style) []row {
	key := piece{cli.Printable(h.lock.Key), cli.Strong}
	if h.failure != "" {
		state := h.failure
		if state != sight.Perhaps {
			state = "unknown: " + state
		}
		rows := []row{{key, {"  " + state, cli.Red}}}
		if !h.seen.IsZero() {
			rows = append(rows, row{{fmt.Sprintf("  %v ago it was %s", inTenths(now.Sub(h.seen)), h.last.InWords()), cli.Dim}})
		}
		return rows
	}
	age, known := h.age(now)
	lasted := "for " + inTenths(age)
	if !known {
		lasted = "for at least " + inTenths(age)
	}
	rows := []row{{key, {"  " + h.last.InWords(), ""}, {", " + lasted, cli.Dim}}}
	switch {
	case h.last.Held && h.last.TTL < 0:
		rows = append(rows, row{{"  it never expires", cli.Red}})
	case h.last.Held:
		rows = append(rows, h.bar(now, width, st))
	}
	rows = append(rows, row{{"  " + h.facts(now), cli.Dim}})
	return append(rows, h.dissent()...)
}

// bar shows how much is left of the hold.
func (h *history) bar(now time.Time, width int, st cli.Style) row {
	left := h.left(now)
	text := " " + inTenths(left) + " left"
	size := min(max(width-len("  12.3s left "), 10), 40)
	full, colour := 0, cli.Blue
	if h.scale > 0 {
		full = min(int(int64(size)*int64(left)/int64(h.scale)), size)
	}
	if left < h.scale/3 {
		colour = cli.Red // a renewal should have come long ago
	}
	return row{{"  ", ""}, {strings.Repeat(st.Full(), full), colour}, {strings.Repeat(st.None(), size-full), cli.Dim}, {text, ""}}
}

// inTenths formats a time that people watch running down.
func inTenths(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Truncate(time.Second).String()
}

// facts returns the numbers below the bar.
func (h *history) facts(now time.Time) string {
	facts := []string{fmt.Sprintf("%d waiting", h.last.Waiting)}
	if rate := h.rate(now); rate > 0 {
		facts = append(facts, fmt.Sprintf("%.1f hand-offs/s at least", rate))
	}
	if h.last.Fence > 0 {
		facts = append(facts, fmt.Sprintf("fence %d", h.last.Fence))
	}
	return strings.Join(facts, ", ")
}

// dissent shows how many of several servers agree, and the servers that don't.
func (h *history) dissent() (rows []row) {
	all := len(h.lock.Servers)
	if all == 1 {
		return nil
	}
	agree := h.lock.Agree
	if !h.last.Held {
		agree = freeOn(h.lock)
	}
	for i, s := range h.lock.Servers {
		v := h.lock.Views[i]
		switch {
		case s.Error != "":
			rows = append(rows, row{{fmt.Sprintf("  %s: %s", s.Name, s.Error), cli.Red}})
		case s.Held != h.last.Held, s.Held && v.Holder != h.lock.Most.Holder:
			rows = append(rows, row{{fmt.Sprintf("  %s: %s", s.Name, s.InWords()), cli.Red}})
		}
	}
	return append([]row{{{fmt.Sprintf("  %d of %d servers agree", agree, all), cli.Dim}}}, rows...)
}

// paint returns the row in at most width columns. If text is cut, it ends with three dots.
func (r row) paint(width int, st cli.Style) string {
	var b strings.Builder
	length := 0
	for _, s := range r {
		length += utf8.RuneCountInString(s.text)
	}
	left := width
	cut := length > width
	if cut {
		left = max(width-3, 0)
	}
	for _, s := range r {
		text := []rune(s.text)
		text = text[:min(len(text), left)]
		left -= len(text)
		if len(text) > 0 {
			b.WriteString(st.Paint(s.colour, string(text)))
		}
	}
	if cut {
		b.WriteString("..."[:min(3, width)])
	}
	return b.String()
}
