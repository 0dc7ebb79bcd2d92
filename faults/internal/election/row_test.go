package election

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

func TestMain(m *testing.M) {
	Main()
	m.Run()
}

func TestTheRowHolds(t *testing.T) {
	assert.Len(t, Rows()[0].Hold(t, time.Second).Figures, 2)
}

func TestTheJudgeSeesWhatMustNotBe(t *testing.T) {
	begin := func(who string, term int64, at evidence.Instant) message {
		return message{Who: who, Term: term, Begun: true, Valid: at}
	}
	for what, c := range map[string]struct {
		said  []message
		wrong string
	}{
		"one after the other":      {[]message{begin("a", 1, 10), {Who: "a", Term: 1, Valid: 20}, begin("b", 2, 21)}, ""},
		"two at once":              {[]message{begin("a", 1, 10), begin("b", 2, 21), {Who: "a", Term: 1, Valid: 30}}, "a and b led"},
		"one within another":       {[]message{begin("a", 1, 10), {Who: "a", Term: 1, Valid: 90}, begin("b", 2, 20)}, "a and b led"},
		"a term twice":             {[]message{begin("a", 1, 10), begin("b", 1, 20)}, "term 1 is there twice"},
		"a word in another term":   {[]message{begin("a", 1, 10), {Who: "b", Term: 1, Valid: 20}}, "b speaks in term 1"},
		"lost before it has begun": {[]message{begin("a", 1, 0), begin("b", 2, 20)}, ""},
	} {
		j := newJudge()
		for _, m := range c.said {
			j.hear(m)
		}
		_, wrong := j.verdict()
		if c.wrong == "" {
			assert.Empty(t, wrong, what)
		} else if assert.NotEmpty(t, wrong, what) {
			assert.Contains(t, wrong[0], c.wrong, what)
		}
	}
	j := newJudge()
	j.hear(begin("a", 1, 10))
	j.observed(1, "b")
	j.observed(1, "a")
	_, wrong := j.verdict()
	assert.Len(t, wrong, 1)
}
