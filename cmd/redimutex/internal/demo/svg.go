package demo

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// The sizes of the picture, in pixels.
const (
	svgWidth  = 960
	svgLeft   = 88 // of the timelines, after the names of the workers
	svgRight  = svgWidth - 28
	svgTop    = 118 // of the first round
	svgLane   = 6   // one goroutine
	svgRow    = demoGoroutines*svgLane + 6
	svgHead   = 52 // title and words of a round
	svgFoot   = 50 // its axis, and the space below
	svgRound  = svgHead + demoWorkers*svgRow + svgFoot
	svgMargin = 24
)

// The colours are for a light and for a dark background; what can't tell shows the light ones.
const svgStyle = `
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
.title { font-size: 22px; font-weight: 600 } .head { font-size: 16px; font-weight: 600 }
.muted { fill: #59636e } .good { fill: #1a7f37 } .bad { fill: #d1242f }
.paper { fill: #ffffff } .row { fill: #f0f2f5 } .grid { stroke: #d1d9e0; stroke-width: 1 }
.held { fill: #2f6fdb } .clash { fill: #d1242f } .free { fill: #f5b942; fill-opacity: .32 }
.kill { stroke: #d1242f; stroke-width: 2 } .back { stroke: #1a7f37; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .muted { fill: #9198a1 } .good { fill: #56d364 } .bad { fill: #ff7b72 }
.paper { fill: #0d1117 } .row { fill: #1a2029 } .grid { stroke: #3d444d }
.held { fill: #58a6ff } .clash { fill: #ff7b72 } .kill { stroke: #ff7b72 } .back { stroke: #56d364 }
}
`

// picture draws the rounds as an SVG that needs nothing else, all on one scale of time.
func picture(results []*result) []byte {
	var longest time.Duration
	for _, r := range results {
		longest = max(longest, r.timeline.length)
	}
	d := &drawing{scale: float64(svgRight-svgLeft) / max(longest.Seconds(), 0.001)}
	height := svgTop + len(results)*svgRound + svgMargin - svgFoot/2
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`, svgWidth, height)
	d.element("title", "", "Who held the lock when")
	d.add("<style>%s</style>", svgStyle)
	d.add(`<rect class="paper" width="%d" height="%d"/>`, svgWidth, height)
	d.text(svgMargin, 40, "title", "Who held the lock when")
	d.text(svgMargin, 64, "muted", fmt.Sprintf("%d processes with %d goroutines each raise one counter in a file: read it, think, write it back. A line is a goroutine.",
		demoWorkers, demoGoroutines))
	d.legend(92)
	for i, r := range results {
		d.round(svgTop+i*svgRound, fmt.Sprintf("%d. %s", i+1, r.title), r)
	}
	d.add("</svg>")
	return d.Bytes()
}

// A drawing is an SVG under construction.
type drawing struct {
	bytes.Buffer
	scale float64 // pixels a second
}

// add adds markup of ours; what comes from elsewhere goes through element or text.
func (d *drawing) add(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// element adds an element with text in it.
func (d *drawing) element(name, attributes, text string) {
	fmt.Fprintf(d, "<%s%s>", name, attributes)
	xml.EscapeText(d, []byte(text)) //nolint:errcheck // a buffer takes everything
	fmt.Fprintf(d, "</%s>\n", name)
}

func (d *drawing) text(x float64, y int, class, text string) {
	d.element("text", fmt.Sprintf(` x="%.1f" y="%d" class="%s"`, x, y, class), text)
}

// x returns where a moment is.
func (d *drawing) x(at time.Duration) float64 { return svgLeft + at.Seconds()*d.scale }

// bar draws a piece of time.
func (d *drawing) bar(class string, s stretch, y, height int, tip string) {
	width := max(d.x(s.to)-d.x(s.from), 0.5)
	if tip == "" {
		d.add(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`, class, d.x(s.from), y, width, height)
		return
	}
	d.add(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d">`, class, d.x(s.from), y, width, height)
	d.element("title", "", tip)
	d.add("</rect>")
}

// legend explains the colours.
func (d *drawing) legend(y int) {
	x := svgMargin
	for _, e := range []struct {
		class, words string
		width        int
	}{
		{"held", "in the critical section, alone", 232},
		{"clash", "together with another: updates get lost", 296},
		{"free", "the holder is dead, its lock has not expired yet", 0},
	} {
		d.add(`<rect class="%s" x="%d" y="%d" width="14" height="11"/>`, e.class, x, y-10)
		d.text(float64(x+20), y, "", e.words)
		x += e.width
	}
}

// round draws one round.
func (d *drawing) round(top int, title string, r *result) {
	t := &r.timeline
	class, told := "good", "no update was lost"
	if n := r.lost(); n > 0 {
		class, told = "bad", were(n)+" lost"
	}
	d.text(svgMargin, top+22, "head", title)
	d.element("text", fmt.Sprintf(` x="%d" y="%d" class="%s" text-anchor="end"`, svgRight, top+22, class),
		fmt.Sprintf("%s, and the counter says %d: %s", cli.Count(r.acknowledged, "update"), r.counter, told))

	rows := top + svgHead
	bottom := rows + demoWorkers*svgRow
	for w := range demoWorkers {
		y := rows + w*svgRow
		d.bar("row", stretch{0, t.length}, y, svgRow-3, "")
		d.text(svgMargin, y+svgRow/2+3, "muted", fmt.Sprintf("worker %d", w+1))
	}
	d.axis(t.length, rows, bottom)
	if t.death != nil {
		d.free(t, rows, bottom)
	}
	clashes := t.clashes()
	for _, s := range t.spans {
		y := rows + s.worker*svgRow + s.goroutine*svgLane + 2
		d.bar("held", stretch{s.from, s.to}, y, svgLane-1,
			fmt.Sprintf("worker %d, goroutine %d: from %.3f s to %.3f s", s.worker+1, s.goroutine+1, s.from.Seconds(), s.to.Seconds()))
		for _, c := range clashes {
			if both, ok := c.common(stretch{s.from, s.to}); ok {
				d.bar("clash", both, y, svgLane-1, "")
			}
		}
	}
	if t.death != nil {
		d.death(t, rows, bottom)
	}
}

// axis draws the time below the rows, and a line upwards from each mark.
func (d *drawing) axis(length time.Duration, top, bottom int) {
	for _, at := range ticks(length) {
		x := d.x(at)
		d.add(`<line class="grid" x1="%.1f" y1="%d" x2="%.1[1]f" y2="%[3]d"/>`, x, top-3, bottom+3)
		d.element("text", fmt.Sprintf(` x="%.1f" y="%d" class="muted" text-anchor="middle"`, x, bottom+17), fmt.Sprintf("%g s", at.Seconds()))
	}
}

// free shades the time in which the lock was a dead worker's.
func (d *drawing) free(t *timeline, top, bottom int) {
	until := t.length
	if t.death.over() {
		until = t.death.next
	}
	d.bar("free", stretch{t.death.at, until}, top-3, bottom-top+3, "")
}

// death marks the end of the victim, and the moment when another process had its lock.
func (d *drawing) death(t *timeline, top, bottom int) {
	x, y := d.x(t.death.at), top+t.death.worker*svgRow+svgRow/2-1
	d.add(`<line class="kill" x1="%.1f" y1="%d" x2="%.1[1]f" y2="%[3]d"/>`, x, top-3, bottom)
	d.add(`<path class="kill" fill="none" d="M%.1f %d l12 12 m0 -12 l-12 12"/>`, x+6, y-6)
	d.element("text", fmt.Sprintf(` x="%.1f" y="%d" class="bad" text-anchor="end"`, x+4, top-8),
		fmt.Sprintf("worker %d killed at %s", t.death.worker+1, inSeconds(t.death.at)))
	if !t.death.over() {
		return
	}
	x = d.x(t.death.next)
	d.add(`<line class="back" x1="%.1f" y1="%d" x2="%.1[1]f" y2="%[3]d"/>`, x, top-3, bottom)
	d.text(x-4, top-8, "good", fmt.Sprintf("worker %d has it, after %s", t.death.successor+1, inSeconds(t.death.recovery())))
}
