package watch

import (
	"fmt"
	"io"
	"math"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
)

// lines reports events line by line: for a log, or as JSON for a script.
type lines struct {
	w     io.Writer
	where string // the names of the servers; "" after the first look has shown them
	*chronicle
	asJSON bool
}

// stamp is the form of a time in a line.
const stamp = "2006-01-02T15:04:05.000Z07:00"

// A lookLine is the result of one look at one lock.
type lookLine struct {
	Time  string `json:"time"`
	Key   string `json:"key"`
	Known bool   `json:"known"`
	Error string `json:"error,omitempty"`
	sight.Sight
	Agree     int            `json:"agree"`
	Handovers float64        `json:"handovers_per_s"`
	Events    []event        `json:"events"`
	Servers   []sight.Server `json:"servers"`
}

func (l *lines) survey(s *survey) {
	waiting := make([]int, len(l.histories))
	for i, h := range l.histories {
		waiting[i] = h.last.Waiting
	}
	news, servers := l.take(s)
	at := s.at.Format(stamp)
	if l.asJSON {
		for i, h := range l.histories {
			cli.PrintJSON(l.w, h.line(at, news[i]))
		}
		return
	}
	for _, text := range servers {
		fmt.Fprintf(l.w, "%s %s\n", at, text)
	}
	where := l.where
	l.where = ""
	for i, h := range l.histories {
		for _, e := range news[i] {
			fmt.Fprintf(l.w, "%s %s: %s%s%s\n", at, cli.Printable(h.lock.Key), e.text, waitingText(h.last.Waiting), where)
		}
		if len(news[i]) == 0 && h.failure == "" && h.last.Waiting != waiting[i] {
			fmt.Fprintf(l.w, "%s %s: %d waiting\n", at, cli.Printable(h.lock.Key), h.last.Waiting)
		}
	}
}

// waitingText returns the words about waiters in a line.
func waitingText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d waiting", n)
}

// line returns the look at time at, as JSON.
func (h *history) line(at string, news []event) lookLine {
	line := lookLine{
		Time: at, Key: h.lock.Key, Known: h.failure == "", Error: h.failure, Sight: sight.Sight{Age: -1},
		Agree: h.lock.Agree, Events: append([]event{}, news...), Servers: h.lock.Servers,
	}
	if line.Known {
		line.Sight = h.last
		line.Handovers = math.Round(h.rate(h.seen)*100) / 100
		if age, known := h.age(h.seen); known && h.last.Held {
			line.Age = age.Milliseconds()
		}
	}
	return line
}
