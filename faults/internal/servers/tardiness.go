package servers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/stats"
)

// A tardiness is how late calls returned after the end of their ctx, against what is allowed.
type tardiness struct {
	long        bool
	late        stats.Times
	hiccup      time.Duration // the worst that the machine itself had meanwhile
	held, tried int
	wrong       []string // what a call returned that it must not
}

// call has f called with a ctx that ends after d, and judges when it returned and, by check, with what.
func (l *tardiness) call(d time.Duration, cancel bool, f func(ctx context.Context) error, check func(error) string) {
	ctx, stop := context.WithTimeout(context.Background(), d)
	if cancel {
		ctx, stop = context.WithCancel(context.Background())
		timer := time.AfterFunc(d, stop)
		defer timer.Stop()
	}
	defer stop()
	h := watchHiccups()
	began := time.Now()
	err := f(ctx)
	late := max(time.Since(began)-d, 0)
	worst := stats.Times(h.Naps()).Worst()
	l.hiccup = max(l.hiccup, worst)
	limit := forever
	if l.long {
		limit = overshoot + worst // a machine that stands still makes everybody late
	}
	l.late = append(l.late, late)
	l.tried++
	problem := check(err)
	if problem == "" && late > limit {
		problem = "returned " + ms(late) + " late, of which the machine's own hiccups explain " + ms(worst)
	}
	if problem == "" {
		l.held++
	} else {
		l.wrong = append(l.wrong, problem)
	}
}

func (l *tardiness) figure() evidence.Figure {
	f := evidence.Figure{
		Library: evidence.Ours, Held: l.held, Tried: l.tried,
		Worst: fmt.Sprintf("%s after the ctx, p99 %s, limit 50 ms (this machine itself is up to %s late)",
			ms(l.late.Worst()), ms(l.late.Quantile(0.99)), ms(l.hiccup)),
	}
	if len(l.wrong) > 0 {
		f.Worst += "; wrong: " + strings.Join(l.wrong[:min(len(l.wrong), 5)], "; ")
	}
	return f
}
