package election

import (
	"fmt"
	"slices"
	"sync"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// A term is what the judge has heard of one term.
type term struct {
	who      string
	from, to evidence.Instant // when its leader led first and last, as far as it has said; 0: it has not
}

// A judge hears all candidates, and an observer.
type judge struct {
	mu    sync.Mutex
	terms map[int64]*term
	told  map[int64]string // by term: the leader that an observer was told
	begun int              // how many terms have begun
	last  string           // the candidate that has begun to lead last
	at    evidence.Instant // when
	wrong []string
}

func newJudge() *judge { return &judge{terms: make(map[int64]*term), told: make(map[int64]string)} }

func (j *judge) hear(m message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.terms[m.Term]
	switch {
	case m.Begun && t != nil:
		j.wrong = append(j.wrong, fmt.Sprintf("term %d is there twice: %s and %s", m.Term, t.who, m.Who))
		return
	case m.Begun:
		t = &term{who: m.Who, from: m.Valid}
		j.terms[m.Term] = t
		j.begun++
		j.last, j.at = m.Who, m.Valid
	case t == nil || t.who != m.Who:
		j.wrong = append(j.wrong, fmt.Sprintf("%s speaks in term %d, which is not its own", m.Who, m.Term))
		return
	}
	t.to = max(t.to, m.Valid)
}

// observed notes what an observer was told.
func (j *judge) observed(number int64, who string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if was, ok := j.told[number]; ok && was != who {
		j.wrong = append(j.wrong, fmt.Sprintf("an observer was told two leaders of term %d: %s and %s", number, was, who))
	}
	j.told[number] = who
}

// leader returns the candidate that has begun to lead last, how many terms have begun, and when the last one did.
func (j *judge) leader() (who string, begun int, at evidence.Instant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last, j.begun, j.at
}

// verdict returns how many terms there were, and what was wrong with them. Two leaders were valid at once if one
// led, by its own word, after the next one did.
func (j *judge) verdict() (terms int, wrong []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	wrong = slices.Clone(j.wrong)
	for number, who := range j.told {
		if t := j.terms[number]; t != nil && t.who != who {
			wrong = append(wrong, fmt.Sprintf("an observer was told that %s leads in term %d, not %s", who, number, t.who))
		}
	}
	var all []*term
	for _, t := range j.terms {
		if t.from != 0 {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *term) int { return int(a.from - b.from) })
	latest := &term{}
	for _, t := range all {
		if latest.to > t.from {
			wrong = append(wrong, fmt.Sprintf("%s and %s led at the same time, for %d µs",
				latest.who, t.who, (latest.to-t.from)/1000))
		}
		if t.to > latest.to {
			latest = t
		}
	}
	return len(j.terms), wrong
}
