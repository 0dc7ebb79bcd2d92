// Package plots draws the pictures, each as SVG and PNG.
package plots

import (
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Chart is lines over axes with logarithmic scales.
type Chart struct {
	Title, X, Y string
	LinearY     bool
	Lines       []Line
	Marks       []Mark
	XTicks      []float64 // where the axis is labelled; nil: at powers of ten
}

// A Line is one library. Low and High, if there are any, are how far the rounds went around Y.
type Line struct {
	Name      string
	X, Y      []float64
	Low, High []float64
	Steps     bool // a point holds until the next one
}

// A Mark is a vertical line with a word to it.
type Mark struct {
	X    float64
	Word string
}

const (
	width  = 18 * vg.Centimeter
	height = 10 * vg.Centimeter
	side   = 5 * vg.Centimeter // for the legend
)

// Of these colours (Okabe and Ito, 2008) people with any kind of colour vision can tell apart each.
var (
	ink     = color.Gray{0x33}
	faint   = color.Gray{0xdd}
	palette = []color.Color{
		color.RGBA{0x00, 0x72, 0xb2, 0xff},
		color.RGBA{0xd5, 0x5e, 0x00, 0xff},
		color.RGBA{0x00, 0x9e, 0x73, 0xff},
		color.RGBA{0xcc, 0x79, 0xa7, 0xff},
		color.RGBA{0xe6, 0x9f, 0x00, 0xff},
		color.RGBA{0x56, 0xb4, 0xe9, 0xff},
		color.Gray{0x55},
		color.RGBA{0x8c, 0x56, 0x4b, 0xff},
	}
	shapes = []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{},
	}
)

// A look is how one library appears in all pictures.
type look struct {
	colour color.Color
	shape  draw.GlyphDrawer
	width  vg.Length
}

// Order is the names in the order of their colours; Ours has thick lines.
type Order struct {
	Names []string
	Ours  string // what ours begin with
}

func (o Order) look(name string) look {
	i := max(slices.Index(o.Names, name), 0)
	l := look{palette[i%len(palette)], shapes[i%len(shapes)], vg.Points(1.2)}
	if strings.HasPrefix(name, o.Ours) {
		l.width = vg.Points(2.4)
	}
	return l
}

// Draw writes the chart to dir, as name.svg and name.png.
func (c Chart) Draw(dir, name string, order Order) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Title.Padding, p.X.Padding, p.Y.Padding = vg.Points(18), vg.Points(4), vg.Points(4)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powers{}
	if c.XTicks != nil {
		p.X.Tick.Marker = at(c.XTicks)
	}
	if c.LinearY {
		p.Y.Tick.Marker = plot.DefaultTicks{}
	} else {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, powers{}
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	p.Add(grid)
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.Padding = true, true, vg.Points(4)
	for _, l := range c.Lines {
		if err := c.add(p, &legend, l, order.look(l.Name)); err != nil {
			return err
		}
	}
	c.frame(p)
	for _, m := range c.Marks {
		if err := mark(p, m); err != nil {
			return err
		}
	}
	return save(filepath.Join(dir, name), width+side, height, func(all draw.Canvas) {
		p.Draw(draw.Crop(all, 0, -side, 0, 0))
		right := draw.Crop(all, width+vg.Points(8), 0, 0, -vg.Centimeter)
		legend.Draw(right)
	})
}

// add draws one line, with its spread.
func (c Chart) add(p *plot.Plot, legend *plot.Legend, l Line, look look) error {
	var points plotter.XYs
	for i := range l.X {
		points = append(points, plotter.XY{X: l.X[i], Y: l.Y[i]})
	}
	if len(points) == 0 {
		return nil
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = look.colour, look.width
	if l.Steps {
		line.StepStyle = plotter.PostStep
		p.Add(line)
		legend.Add(l.Name, line)
		return nil
	}
	dots, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	dots.Color, dots.Shape, dots.Radius = look.colour, look.shape, vg.Points(3)
	p.Add(line, dots)
	legend.Add(l.Name, line, dots)
	if l.Low != nil {
		bars, err := plotter.NewYErrorBars(spread{points, l.Low, l.High})
		if err != nil {
			return err
		}
		bars.Color = look.colour
		p.Add(bars)
	}
	return nil
}

// A spread has errors relative to the points.
type spread struct {
	plotter.XYs
	low, high []float64
}

func (s spread) YError(i int) (below, above float64) {
	return s.XYs[i].Y - s.low[i], s.high[i] - s.XYs[i].Y
}

// frame leaves a margin around what was drawn.
func (c Chart) frame(p *plot.Plot) {
	const margin = 1.15
	p.X.Min, p.X.Max = p.X.Min/margin, p.X.Max*margin
	if c.LinearY {
		p.Y.Min, p.Y.Max = 0, max(p.Y.Max, 1)
		return
	}
	p.Y.Min, p.Y.Max = p.Y.Min/margin, p.Y.Max*margin
}

// mark draws a dashed line from the bottom to the top, and its word above.
func mark(p *plot.Plot, m Mark) error {
	line, err := plotter.NewLine(plotter.XYs{{X: m.X, Y: p.Y.Min}, {X: m.X, Y: p.Y.Max}})
	if err != nil {
		return err
	}
	line.Color, line.Dashes = ink, []vg.Length{vg.Points(3), vg.Points(3)}
	word, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: m.X, Y: p.Y.Max}}, Labels: []string{m.Word}})
	if err != nil {
		return err
	}
	word.Offset.Y = vg.Points(3)
	word.TextStyle[0].XAlign = draw.XCenter
	word.TextStyle[0].Color = ink
	p.Add(line, word)
	return nil
}

// Powers labels powers of ten, and has small ticks in between. Where there are few powers, some of
// those have labels too.
type powers struct{}

func (powers) Ticks(low, high float64) (ticks []plot.Tick) {
	const few = 100
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		power := math.Pow(10, e)
		for i := range 9 {
			t := plot.Tick{Value: power * float64(i+1)}
			if i == 0 || high < few*low && (i == 1 || i == 4) {
				t.Label = tickLabel(t.Value)
			}
			if t.Value >= low && t.Value <= high {
				ticks = append(ticks, t)
			}
		}
	}
	return ticks
}

// at labels the given values.
type at []float64

func (a at) Ticks(low, high float64) (ticks []plot.Tick) {
	for _, v := range a {
		if v >= low && v <= high {
			ticks = append(ticks, plot.Tick{Value: v, Label: tickLabel(v)})
		}
	}
	return ticks
}

func tickLabel(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + " M"
	case v >= 1e3:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + " k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
