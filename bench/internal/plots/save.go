package plots

import (
	"image/color"
	"io"
	"os"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// dpi is fine enough for screens that have two dots to a pixel.
const dpi = 160

// save draws a picture of the given size twice, to path.svg and path.png.
func save(path string, w, h vg.Length, paint func(draw.Canvas)) error {
	svg := vgsvg.New(w, h)
	png := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(dpi))}
	for suffix, canvas := range map[string]interface {
		vg.CanvasSizer
		io.WriterTo
	}{".svg": svg, ".png": png} {
		c := draw.New(canvas)
		c.SetColor(color.White)
		c.Fill(c.Path())
		paint(draw.Crop(c, vg.Points(6), -vg.Points(6), vg.Points(6), -vg.Points(6)))
		f, err := os.Create(path + suffix)
		if err != nil {
			return err
		}
		if _, err := canvas.WriteTo(f); err != nil {
			f.Close()
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
