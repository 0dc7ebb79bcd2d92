//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/redimutex/redimutex/examples/internal/crew"
)

// A contest runs the candidates, and keeps the ledger that they write to. Only one goroutine uses it.
type contest struct {
	ctx     context.Context
	cancel  context.CancelFunc
	news    chan news
	names   map[*crew.Worker]string
	running int

	// The ledger.
	fence   int64 // the highest seen
	refused int   // writes with a lower one
	last    time.Time

	terms []*term
}

// A term is the time of one leader.
type term struct {
	worker *crew.Worker
	leader string
	fence  int64
	writes int
	gap    time.Duration // since the last write of the term before
	end    string
	told   bool // that it has lost its lease
}

// news is an event, or the end of a process.
type news struct {
	event
	from *crew.Worker
	over bool
}

func newContest(ctx context.Context, url string) (*contest, error) {
	e := &contest{news: make(chan news), names: make(map[*crew.Worker]string)}
	e.ctx, e.cancel = context.WithCancel(ctx)
	key := "example:leader:" + rand.Text()
	for _, name := range []string{"anna", "ben", "cleo"} {
		w, err := crew.Hire(e.ctx, job{url, key, name},
			func(w *crew.Worker, ev event) { e.news <- news{event: ev, from: w} },
			func(w *crew.Worker, _ error) { e.news <- news{from: w, over: true} })
		if err != nil {
			e.close()
			return nil, err
		}
		e.names[w] = name
		e.running++
	}
	return e, nil
}

// close ends all candidates.
func (e *contest) close() {
	e.cancel()
	for e.running > 0 {
		if n := <-e.news; n.over {
			e.running--
		}
	}
}

// enough is the number of writes that shows that a leader leads.
const enough = 15

// play lets the planned mishaps happen to the leaders.
func (e *contest) play(out io.Writer) error {
	steps := []struct {
		words, end string
		do         func(w *crew.Worker) error
	}{
		{"is killed", "killed", func(w *crew.Worker) error { return w.Signal(os.Kill) }},
		{"resigns", "resigned", func(w *crew.Worker) error { w.Order(resign{}); return nil }},
		{"is paused", "paused for longer than its lease", func(w *crew.Worker) error { return w.Signal(syscall.SIGSTOP) }},
	}
	var t *term
	for _, step := range steps {
		var err error
		if t, err = e.await(t); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s leads, and %s\n", t.leader, step.words)
		t.end = step.end
		if err := step.do(t.worker); err != nil {
			return err
		}
	}
	sleeper := t
	t, err := e.await(sleeper)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s leads, and %s wakes up\n", t.leader, sleeper.leader)
	if err := sleeper.worker.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	for !sleeper.told {
		if err := e.hear(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%s knows that it does not lead any more\n", sleeper.leader)
	e.terms[len(e.terms)-1].end = "still leads"
	return nil
}

// await waits for a leader later than before that has written often enough. It passes over a leader that has lost its lease by
// itself, on a machine that is too busy.
func (e *contest) await(before *term) (*term, error) {
	for {
		if n := len(e.terms); n > 0 && e.terms[n-1] != before && e.terms[n-1].writes >= enough {
			return e.terms[n-1], nil
		}
		if err := e.hear(); err != nil {
			return nil, err
		}
	}
}

// hear processes one piece of news.
func (e *contest) hear() error {
	var n news
	select {
	case n = <-e.news:
	case <-e.ctx.Done():
		return context.Cause(e.ctx)
	}
	switch {
	case n.over:
		if e.running--; e.running == 0 {
			return errors.New("no candidate is left")
		}
	case n.What == elected:
		t := &term{worker: n.from, leader: e.names[n.from], fence: n.Fence, end: "lost its lease"}
		if !e.last.IsZero() {
			t.gap = time.Since(e.last)
		}
		e.terms = append(e.terms, t)
	case n.What == write && n.Fence < e.fence:
		e.refused++
	case n.What == write:
		e.fence, e.last = n.Fence, time.Now()
		for _, t := range e.terms {
			if t.fence == n.Fence {
				t.writes++
			}
		}
	case n.What == lost:
		for _, t := range e.terms {
			if t.fence == n.Fence {
				t.told = true
			}
		}
	}
	return nil
}
