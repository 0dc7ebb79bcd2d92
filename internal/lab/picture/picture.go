// Package picture draws who held a lock when, and what was wrong with the servers at that time.
package picture

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"time"
)

// A Picture is lanes over one time axis.
type Picture struct {
	Title, Subtitle string
	From, To        time.Duration
	Groups          []Group
	Thin            bool // for many lanes: only some of them should have a name
}

// A Group is lanes that belong together, such as those of all servers.
type Group struct {
	Title string
	Lanes []Lane
}

// A Lane is what happened to one server, or what one holder did.
type Lane struct {
	Name string
	Bars []Bar
}

// A Bar is something that lasted.
type Bar struct {
	From, To time.Duration
	Kind     Kind
	Tip      string // shown under the mouse; may be empty
}

// A Kind is the look of a bar.
type Kind string

// The kinds. A Shaded bar goes through all lanes of the picture, behind the rest.
const (
	Held   Kind = "held"   // a valid lease
	Lost   Kind = "lost"   // a holder that has not stopped, although its lease was lost
	Clash  Kind = "clash"  // a lease that began while another was valid
	Waits  Kind = "waits"  // wants the lock
	Hang   Kind = "hang"   // does not answer
	Down   Kind = "down"   // is not there
	Forgot Kind = "forgot" // is not there, and comes back without its data
	Mark   Kind = "mark"   // a moment
	Shaded Kind = "shaded" // a fault that concerns all lanes
)

// legends says what a kind means, in the order of the legend.
var legends = []struct {
	kind  Kind
	words string
}{
	{Held, "valid lease"},
	{Lost, "goes on, but the lease is lost"},
	{Clash, "began while another was valid"},
	{Waits, "waits for the lock"},
	{Hang, "does not answer"},
	{Down, "down"},
	{Forgot, "down, comes back empty"},
	{Mark, "clock jumps"},
	{Shaded, "fault"},
}

// The sizes, in pixels.
const (
	width    = 1000
	left     = 104
	right    = width - 24
	groupTop = 28
)

// The colours are for a light and for a dark background. A viewer that can't tell which it has shows the light ones.
const style = `
text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
.title { font-size: 18px; font-weight: 600 } .group { font-weight: 600 } .muted { fill: #59636e }
.paper { fill: #ffffff } .row { fill: #f0f2f5 } .grid { stroke: #d1d9e0; stroke-width: 1 }
.held { fill: #2f6fdb } .lost { fill: #8250df } .clash { fill: #d1242f } .waits { fill: #b6c2cf }
.hang { fill: #f0a830 } .down { fill: #8c6a4f } .forgot { fill: #d1242f } .mark { fill: #bf3989 }
.shaded { fill: #f0a830; fill-opacity: .22 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .muted { fill: #9198a1 } .paper { fill: #0d1117 } .row { fill: #1a2029 } .grid { stroke: #3d444d }
.held { fill: #58a6ff } .lost { fill: #be8fff } .clash, .forgot { fill: #ff7b72 } .waits { fill: #4b5661 }
.down { fill: #b08968 } .mark { fill: #f778ba }
}
`

// Save writes the picture as a self-contained SVG file.
func (p Picture) Save(path string) error { return os.WriteFile(path, p.SVG(), 0o644) }

// SVG returns the picture.
func (p Picture) SVG() []byte {
	d := &drawing{Picture: p, high: 15, pitch: 20}
	if p.Thin {
		d.high, d.pitch = 5, 5
	}
	d.scale = float64(right-left) / max((p.To-p.From).Seconds(), 1e-9)
	top := 88
	height := top + 34
	for _, g := range p.Groups {
		height += groupTop + len(g.Lanes)*d.pitch
	}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`, width, height)
	d.element("title", "", p.Title)
	d.add("<style>%s</style>", style)
	d.add(`<rect class="paper" width="%d" height="%d"/>`, width, height)
	d.text(24, 32, "title", p.Title)
	d.text(24, 52, "muted", p.Subtitle)
	d.legend(76)
	d.axis(top, height-26)
	d.shades(top, height-30)
	for _, g := range p.Groups {
		top += groupTop
		d.text(24, top-8, "group", g.Title)
		for _, l := range g.Lanes {
			d.lane(top, l)
			top += d.pitch
		}
	}
	d.add("</svg>")
	return d.Bytes()
}

// A drawing is an SVG under construction.
type drawing struct {
	bytes.Buffer
	Picture
	scale float64 // pixels a second
	high  int     // a lane
	pitch int     // from one lane to the next
}

// add adds trusted markup. Text from elsewhere goes through element or text, which escape it.
func (d *drawing) add(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

func (d *drawing) element(name, attributes, text string) {
	fmt.Fprintf(d, "<%s%s>", name, attributes)
	xml.EscapeText(d, []byte(text)) //nolint:errcheck // a buffer takes everything
	fmt.Fprintf(d, "</%s>\n", name)
}

func (d *drawing) text(x float64, y int, class, text string) {
	d.element("text", fmt.Sprintf(` x="%.1f" y="%d" class="%s"`, x, y, class), text)
}

func (d *drawing) x(at time.Duration) float64 {
	at = min(max(at, d.From), d.To)
	return left + (at-d.From).Seconds()*d.scale
}

func (d *drawing) bar(b Bar, y, height int) {
	if b.To < d.From || b.From > d.To {
		return
	}
	wide := max(d.x(b.To)-d.x(b.From), 1)
	if b.Kind == Mark {
		wide = max(wide, 3)
	}
	d.add(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d">`, b.Kind, d.x(b.From), y, wide, height)
	d.element("title", "", b.tip())
	d.add("</rect>")
}

func (b Bar) tip() string {
	t := fmt.Sprintf("%s, %v to %v", b.Kind, b.From.Round(time.Microsecond), b.To.Round(time.Microsecond))
	if b.Tip != "" {
		t = b.Tip + ": " + t
	}
	return t
}

func (d *drawing) lane(y int, l Lane) {
	d.add(`<rect class="row" x="%d" y="%d" width="%d" height="%d"/>`, left, y, right-left, d.high)
	if l.Name != "" {
		d.text(24, y+12, "muted", l.Name)
	}
	margin := d.high / 15
	for _, b := range l.Bars {
		d.bar(b, y+margin, d.high-2*margin)
	}
}

// shades draws the Shaded bars through all lanes.
func (d *drawing) shades(top, bottom int) {
	for _, g := range d.Groups {
		for _, l := range g.Lanes {
			for _, b := range l.Bars {
				if b.Kind == Shaded {
					d.bar(b, top, bottom-top)
				}
			}
		}
	}
}

// legend explains the kinds that occur.
func (d *drawing) legend(y int) {
	used := make(map[Kind]bool)
	for _, g := range d.Groups {
		for _, l := range g.Lanes {
			for _, b := range l.Bars {
				used[b.Kind] = true
			}
		}
	}
	x := 24
	for _, e := range legends {
		if used[e.kind] {
			d.add(`<rect class="%s" x="%d" y="%d" width="14" height="11"/>`, e.kind, x, y-10)
			d.text(float64(x+20), y, "", e.words)
			x += 20 + 7*len(e.words) + 24
		}
	}
}

// axis draws the scale of time: steps of 1, 2 or 5, of which about ten fit.
func (d *drawing) axis(top, bottom int) {
	rough := (d.To - d.From).Seconds() / 10
	step := math.Pow(10, math.Floor(math.Log10(max(rough, 1e-9))))
	for _, n := range []float64{1, 2, 5, 10} {
		if n*step >= rough {
			step *= n
			break
		}
	}
	every := time.Duration(step * float64(time.Second))
	if every <= 0 {
		return
	}
	first := (d.From + every - 1) / every * every
	for at := first; at <= d.To; at += every {
		x := d.x(at)
		d.add(`<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x, top, x, bottom)
		d.element("text", fmt.Sprintf(` x="%.1f" y="%d" class="muted" text-anchor="middle"`, x, bottom+16), at.String())
	}
}
