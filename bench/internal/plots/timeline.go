package plots

import (
	"fmt"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Timeline shows who held the lock when: a panel for each library, a row for each goroutine.
type Timeline struct {
	Title  string
	Rows   int // goroutines
	Group  int // so many of them are a process
	Length float64
	Panels []Panel
}

// A Panel is one library.
type Panel struct {
	Name string
	Bars []Bar
}

// A Bar is one hold, in ms from the left, of the goroutine in a row, from 0.
type Bar struct {
	Row      int
	From, To float64
}

const panelHeight = 4.8 * vg.Centimeter

// Draw writes the picture to dir, as name.svg and name.png.
func (t Timeline) Draw(dir, name string, order Order) error {
	var column [][]*plot.Plot
	for i, panel := range t.Panels {
		p := plot.New()
		p.Title.Text = panel.Name
		p.Title.Padding = vg.Points(3)
		p.Y.Label.Text = "goroutine"
		p.Y.Tick.Marker = t
		p.X.Min, p.X.Max = 0, t.Length
		p.Y.Min, p.Y.Max = float64(t.Rows)+.5, .5 // the first one on top
		if i == len(t.Panels)-1 {
			p.X.Label.Text = "ms"
		}
		p.Add(bars{t, panel.Bars, order.look(panel.Name)})
		column = append(column, []*plot.Plot{p})
	}
	title := 1.2 * vg.Centimeter
	h := vg.Length(len(t.Panels))*panelHeight + title
	return save(filepath.Join(dir, name), width+side/2, h, func(all draw.Canvas) {
		style := column[0][0].Title.TextStyle
		style.Font.Size *= 1.2
		style.XAlign, style.YAlign = draw.XCenter, draw.YTop
		all.FillText(style, vg.Point{X: (all.Min.X + all.Max.X) / 2, Y: all.Max.Y}, t.Title)
		below := draw.Crop(all, 0, 0, 0, -title*.8)
		tiles := draw.Tiles{Rows: len(t.Panels), Cols: 1, PadY: vg.Points(6), PadRight: vg.Points(12)}
		for i, row := range plot.Align(column, tiles, below) {
			column[i][0].Draw(row[0])
		}
	})
}

// Ticks labels the first goroutine of each process.
func (t Timeline) Ticks(float64, float64) (ticks []plot.Tick) {
	for row := 0; row < t.Rows; row += t.Group {
		ticks = append(ticks, plot.Tick{Value: float64(row + 1), Label: fmt.Sprint(row + 1)})
	}
	return ticks
}

// Bars draws the holds over a line between the processes.
type bars struct {
	Timeline
	bars []Bar
	look look
}

// Plot is what plot.Plot calls.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for row := b.Group; row < b.Rows; row += b.Group {
		at := y(float64(row) + .5)
		c.StrokeLine2(draw.LineStyle{Color: faint, Width: vg.Points(.5)}, c.Min.X, at, c.Max.X, at)
	}
	for _, bar := range b.bars {
		if bar.To < 0 || bar.From > b.Length {
			continue
		}
		left, right := x(max(bar.From, 0)), x(min(bar.To, b.Length))
		right = max(right, left+vg.Points(.7)) // or a short hold would not be seen
		low, high := y(float64(bar.Row)+1.45), y(float64(bar.Row)+.55)
		c.FillPolygon(b.look.colour, []vg.Point{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}})
	}
}
