package sim

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/picture"
)

// looks says how each kind of Stretch is drawn.
var looks = map[string]picture.Kind{
	"held": picture.Held, "lost": picture.Lost, "clash": picture.Clash,
	"hang": picture.Hang, "crash": picture.Down, "amnesia": picture.Forgot, "jump": picture.Mark, "cut": picture.Hang,
}

// draw adds a picture of the beginning of the first episode to the result.
func draw(res *evidence.Result, s evidence.Setup, c Config, r *Report, title string) error {
	if r.Picture == nil {
		return nil
	}
	p := picture.Picture{
		Title: title,
		Subtitle: fmt.Sprintf("The first %v of virtual time: %s, TTL %v, seed %d.",
			r.Picture.Until, c.Name, ttl, s.Seed),
		To: r.Picture.Until,
		Groups: []picture.Group{
			{Title: "Servers", Lanes: lanes("server", c.Servers, r.Picture.Ills)},
			{Title: "Workers", Lanes: lanes("worker", r.Picture.Lanes, r.Picture.Holds)},
		},
	}
	if err := p.Save(filepath.Join(s.Dir, "timeline.svg")); err != nil {
		return err
	}
	res.Files = append(res.Files, "timeline.svg")
	return nil
}

func lanes(name string, n int, all []Stretch) []picture.Lane {
	lanes := make([]picture.Lane, n)
	for i := range lanes {
		lanes[i].Name = name + " " + strconv.Itoa(i)
	}
	for _, e := range all {
		lanes[e.Lane].Bars = append(lanes[e.Lane].Bars, picture.Bar{From: e.From, To: e.To, Kind: looks[e.Kind]})
	}
	return lanes
}
